// All kernels, in one image.
#include "gpu/combine.cu"
#include "gpu/words.cu"
// Shared by both.
#include "gpu/fused.cu"
// Uses its block of threads.
#include "gpu/chunk_run.cu"
