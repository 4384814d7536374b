// Collectives of CUDA tensors: enqueued on a stream of the back end's own, behind what the caller's
// stream has been given, and waited for by streams. Nothing of CUDA is needed to build: PyTorch's
// device interface knows streams and events of whichever device there is.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace penstock::torch {

/// A call that is enqueued. Waiting for it makes the current stream wait, as with NCCL's back end;
/// with a timeout the host waits too.
class GpuWork : public c10d::Work {
 public:
  /// Null while nothing is known to have gone wrong.
  using Failure = std::function<std::exception_ptr()>;
  struct Of {
    c10d::OpType type;
    const char* title = nullptr;  ///< of the profiler's event; null: none
    std::uint64_t sequence = 0;
  };
  /// `end` was recorded behind the call on `stream`.
  GpuWork(int rank, const Of& of, const std::vector<at::Tensor>& inputs,
          std::vector<at::Tensor> outputs, const c10::Stream& stream,
          std::shared_ptr<c10::Event> end, Failure failure);

  bool isCompleted() override;
  bool isSuccess() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  std::vector<at::Tensor> result() override { return outputs_; }
  std::uint64_t getSequencenumber() const override { return of_.sequence; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void throw_if_failed() const;

  Of of_;
  std::vector<at::Tensor> outputs_;
  c10::Stream stream_;
  std::shared_ptr<c10::Event> end_;
  Failure failure_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// The back end's stream on a device, made when it is first needed.
class GpuStream {
 public:
  /// Behind what the current stream of `device` has been given.
  c10::Stream begin(c10::Device device);
  /// Recorded behind what it has been given so far.
  std::shared_ptr<c10::Event> end() const;
  /// The memory of the tensors stays as it is until the stream is through with it.
  void keep(const std::vector<at::Tensor>& tensors) const;
  bool is_used() const { return stream_.has_value(); }

 private:
  std::optional<c10::Stream> stream_;
};

/// Of the first that is on a GPU; none: they are of the CPU. Errors: several devices in one call.
std::optional<c10::Device> gpu_of(const std::vector<at::Tensor>& tensors);

/// The GPU that PyTorch uses in this process: this thread's current one, or the first that it has
/// made a context on; nothing before a program chose or used one. Makes no context.
std::optional<c10::Device> gpu_in_use();
/// Whether PyTorch has a GPU that the process may come to use.
bool may_use_gpu();

}  // namespace penstock::torch
