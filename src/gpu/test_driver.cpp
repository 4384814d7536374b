#include "gpu/test_driver.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "base/env.hpp"
#include "gpu/driver.hpp"

namespace penstock::gpu {

bool open_test_driver() {
  // The ranks of a test are threads, and each has streams that wait for another rank's: if two of
  // them shared a queue of the GPU, one could stand behind the other for ever. There are 8 queues
  // unless a program asks for more before the driver starts.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  base::warn_unknown_variables();
  const std::string real = base::env_text("PENSTOCK_SIM_CUDA");
  return cuda::driver(real.empty() ? STANDIN : real.c_str()).has_value();
}

bool on_a_gpu() {
  return base::env_is_set("PENSTOCK_SIM_CUDA");
}

static void* of_standin(const char* function) {
  return dlsym(dlopen(STANDIN, RTLD_NOW | RTLD_NOLOAD), function);
}

unsigned launches_of(const char* begin) {
  return reinterpret_cast<unsigned (*)(const char*)>(of_standin("standin_launches"))(begin);
}

unsigned copies() {
  return reinterpret_cast<unsigned (*)()>(of_standin("standin_copies"))();
}

unsigned stream_operations() {
  return reinterpret_cast<unsigned (*)()>(of_standin("standin_operations"))();
}

}  // namespace penstock::gpu
