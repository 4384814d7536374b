// The compiled kernels of combine.cu, as the driver loads them.
#pragma once

namespace penstock::gpu {

/// False in a build without nvcc, whose image is empty.
bool has_kernels();
const void* kernels_image();

}  // namespace penstock::gpu
