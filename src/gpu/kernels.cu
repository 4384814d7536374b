// All kernels, in one image.
#include "gpu/combine.cu"
#include "gpu/words.cu"
// Of both.
#include "gpu/fused.cu"
