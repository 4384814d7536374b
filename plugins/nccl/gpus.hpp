// The GPUs that this process sees, by their ordinals.
#pragma once

#include <memory>

#include "gpu/device.hpp"
#include "nccl/abi.hpp"

namespace penstock::nccl {

/// Checks the devices of `ranks` ranks: those of `list` or, if it is null, the first ones. Errors:
/// invalid_argument, where this process sees no such GPU. Without a driver any list will do.
Result check_gpus(const char* call, int ranks, const int* list);

/// Makes a GPU current on this thread while it exists; without a driver does nothing.
class OnGpu {
 public:
  /// A GPU that check_gpus() has found.
  explicit OnGpu(int ordinal);
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  const cuda::Driver* driver_ = nullptr;
  cuda::Device device_ = 0;
  bool is_held_ = false, is_current_ = false;
};

}  // namespace penstock::nccl
