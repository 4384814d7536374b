// Checks that the product's C headers compile as CUDA and that a kernel can use their types.
#include "penstock/cxl_memory.h"
#include "penstock/cxl_shm.h"
#include "penstock/penstock.h"

namespace {

__global__ void clear(cxl_shm_obj_t object, unsigned long long bytes) {
  auto* const words = static_cast<unsigned long long*>(object.addr);
  const unsigned long long first = blockIdx.x * blockDim.x + threadIdx.x;
  for (auto word = first; word < bytes / sizeof *words; word += gridDim.x * blockDim.x)
    words[word] = 0;
}

}  // namespace

void launch_clear(const cxl_shm_obj_t& object, unsigned long long bytes) {
  clear<<<1, 32>>>(object, bytes);
}
