// A CUDA device for a build of PyTorch that has none: streams, events and memory of the driver that
// is loaded, which is the stand-in GPU in tests (sim/cuda). Only what the back end's calls of GPUs
// use; no kernel of PyTorch runs on it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <memory>
#include <vector>

#include "gpu/driver.hpp"

namespace penstock::standin {

const cuda::Driver& driver();
/// The first GPU. Any thread; its context becomes the thread's.
c10::Device device();
c10::Stream new_stream();
cuda::Stream native(const c10::Stream& stream);
/// Ends the process if `status` is an error; `what` names the call.
void require(cuda::Status status, const char* what);

/// Numbers of 16 bits in memory of the GPU.
class Numbers {
 public:
  explicit Numbers(std::int64_t count);
  ~Numbers();
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  /// Copies by `stream`, and waits until that is done.
  void put(std::int64_t first, const std::vector<at::BFloat16>& from, const c10::Stream& stream);
  std::vector<at::BFloat16> get(const c10::Stream& stream) const;
  /// A tensor of some of them, which keeps them alive.
  static at::Tensor tensor(const std::shared_ptr<Numbers>& numbers, std::int64_t first,
                           std::int64_t count);

 private:
  cuda::DevicePointer at(std::int64_t first) const {
    return at_ + static_cast<cuda::DevicePointer>(first) * sizeof(at::BFloat16);
  }
  std::int64_t count_;
  cuda::DevicePointer at_ = 0;
};

}  // namespace penstock::standin
