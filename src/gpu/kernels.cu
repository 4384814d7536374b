// All kernels, in one image.
#include "gpu/combine.cu"
#include "gpu/words.cu"
// Shared by both.
#include "gpu/fused.cu"
// They use its block of threads.
#include "gpu/chunk_run.cu"
#include "gpu/flagged.cu"
