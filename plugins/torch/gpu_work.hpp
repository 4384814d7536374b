// Collectives of CUDA tensors. They are enqueued on a stream of the back end's own, after the work
// on the caller's stream, and streams wait for them. Building needs nothing from CUDA: PyTorch's
// device interface provides streams and events of any device.
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

/// An enqueued call. Waiting for it makes the current stream wait, as with NCCL's back end. With a
/// timeout, the host waits too.
class GpuWork : public c10d::Work {
 public:
  /// Returns the error, or null while none is known.
  using Failure = std::function<std::exception_ptr()>;
  struct Of {
    c10d::OpType type;
    const char* title = nullptr;  ///< of the profiler's event; null: no event
    std::uint64_t sequence = 0;
  };
  /// `end` was recorded on `stream` after the call.
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

/// The back end's stream on a device, created when it is first needed.
class GpuStream {
 public:
  /// Makes the stream wait for the work on the current stream of `device`. Returns it.
  c10::Stream begin(c10::Device device);
  /// Records an event after all work enqueued so far.
  std::shared_ptr<c10::Event> end() const;
  /// Keeps the memory of the tensors until the stream has finished with it.
  void keep(const std::vector<at::Tensor>& tensors) const;
  bool is_used() const { return stream_.has_value(); }

 private:
  std::optional<c10::Stream> stream_;
};

/// The device of the tensors, if they are on a GPU; nullopt: they are on the CPU. Errors: tensors
/// on several devices.
std::optional<c10::Device> gpu_of(const std::vector<at::Tensor>& tensors);

/// The GPU that PyTorch uses in this process: this thread's current one, or else the first with a
/// context. Nullopt until the program has chosen or used one. Creates no context.
std::optional<c10::Device> gpu_in_use();
/// Whether PyTorch has a GPU that the process may use later.
bool may_use_gpu();

}  // namespace penstock::torch
