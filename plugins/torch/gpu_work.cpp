#include "gpu_work.hpp"

#include <ATen/Context.h>
#include <ATen/core/ivalue.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/StreamGuard.h>

#include <thread>

#include "timeout.hpp"

namespace penstock::torch {

GpuWork::GpuWork(int rank, const Of& of, const std::vector<at::Tensor>& inputs,
                 std::vector<at::Tensor> outputs, const c10::Stream& stream,
                 std::shared_ptr<c10::Event> end, Failure failure)
    : c10d::Work(rank, of.type, of.title,
                 of.title != nullptr ? std::optional(inputs) : std::nullopt),
      of_(of),
      outputs_(std::move(outputs)),
      stream_(stream),
      end_(std::move(end)),
      failure_(std::move(failure)) {}

bool GpuWork::isCompleted() {
  return failure_() != nullptr || end_->query();
}

bool GpuWork::isSuccess() const {
  return failure_() == nullptr && end_->query();
}

void GpuWork::throw_if_failed() const {
  if (const auto error = failure_()) std::rethrow_exception(error);
}

void GpuWork::synchronize() {
  throw_if_failed();
  const c10::impl::VirtualGuardImpl devices(stream_.device_type());
  end_->block(devices.getStream(stream_.device()));
}

bool GpuWork::wait(std::chrono::milliseconds timeout) {
  synchronize();
  if (timeout == kNoTimeout) return true;
  const auto until = std::chrono::steady_clock::now() + limit_of(timeout);
  while (!end_->query()) {
    TORCH_CHECK(std::chrono::steady_clock::now() < until,
                "penstock: ", c10d::opTypeToString(of_.type), " #", of_.sequence,
                " has not ended within ", timeout.count(), " ms");
    std::this_thread::yield();
  }
  throw_if_failed();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> GpuWork::getFuture() {
  const std::lock_guard<std::mutex> guard(future_mutex_);
  if (future_ != nullptr) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors(),
                                                     std::vector<c10::Device>{stream_.device()});
  // Work that the future's user starts must follow the work already on the stream.
  const c10::StreamGuard on(stream_);
  future_->markCompleted(at::IValue(outputs_));
  return future_;
}

c10::Stream GpuStream::begin(c10::Device device) {
  const c10::impl::VirtualGuardImpl devices(device.type());
  if (!stream_ || stream_->device() != device)
    stream_ = devices.getStreamFromGlobalPool(device, true);
  c10::Event reached(device.type());
  reached.record(devices.getStream(device));
  reached.block(*stream_);
  return *stream_;
}

std::shared_ptr<c10::Event> GpuStream::end() const {
  auto recorded = std::make_shared<c10::Event>(stream_->device_type());
  recorded->record(*stream_);
  return recorded;
}

void GpuStream::keep(const std::vector<at::Tensor>& tensors) const {
  const c10::impl::VirtualGuardImpl devices(stream_->device_type());
  for (const at::Tensor& tensor : tensors)
    if (tensor.numel() != 0) devices.recordDataPtrOnStream(tensor.storage().data_ptr(), *stream_);
}

std::optional<c10::Device> gpu_of(const std::vector<at::Tensor>& tensors) {
  std::optional<c10::Device> found;
  for (const at::Tensor& tensor : tensors) {
    if (!found) found = tensor.device();
    TORCH_CHECK(*found == tensor.device(), "penstock: a collective of tensors on ", *found, " and ",
                tensor.device(), ": all must be on one device");
  }
  return found && !found->is_cpu() ? found : std::nullopt;
}

bool may_use_gpu() {
  return at::hasCUDA();
}

std::optional<c10::Device> gpu_in_use() {
  if (!may_use_gpu()) return std::nullopt;
  const c10::impl::VirtualGuardImpl devices(c10::DeviceType::CUDA);
  const auto has_context = [](c10::DeviceIndex index) {
    return at::detail::getCUDAHooks().hasPrimaryContext(index);
  };
  const c10::Device current = devices.getDevice();
  if (has_context(current.index())) return current;
  for (c10::DeviceIndex index = 0; index < devices.deviceCount(); ++index)
    if (has_context(index)) return c10::Device(c10::DeviceType::CUDA, index);
  return std::nullopt;
}

}  // namespace penstock::torch
