// All kernels, in one image.
#include "gpu/combine.cu"
#include "gpu/words.cu"
// Shared by both.
#include "gpu/fused.cu"
