#include "gpu/test_driver.hpp"

#include <cstdlib>

#include "cuda/driver.hpp"

namespace penstock::gpu {

bool open_test_driver() {
  const char* const real = std::getenv("PENSTOCK_TEST_CUDA");
  return cuda::driver(real != nullptr ? real : STANDIN).has_value();
}

}  // namespace penstock::gpu
