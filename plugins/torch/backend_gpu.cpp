// The back end's calls of CUDA tensors, through penstock/gpu.h.
#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>
#include <penstock/gpu.h>

#include "backend.hpp"

namespace penstock::torch {

/// The error of the group or of enqueued work; null if there is none.
std::exception_ptr Backend::failure() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (error_ != nullptr) return error_;
  }
  const std::lock_guard<std::mutex> of_comm(comm_mutex_);
  if (comm_ == nullptr) return nullptr;
  const auto status = penstock_comm_error(comm_);
  if (status == PENSTOCK_OK) return nullptr;
  try {
    throw_last_error(status);
  } catch (...) {
    fail(std::current_exception());
    return std::current_exception();
  }
}

void Backend::enqueue_parts(const How& how, const std::string& name, const std::vector<Part>& parts,
                            const c10::Stream& stream) {
  if (const auto error = failure()) std::rethrow_exception(error);
  connect();
  for (const Part& part : parts) {
    const penstock_call_t call = call_of(name, part, how.timeout);
    const auto status = penstock_comm_enqueue(comm_, &call, stream.native_handle());
    if (status != PENSTOCK_OK) throw_last_error(status);
    part.output.store();
  }
}

Pending Backend::start_on_gpu(const How& how, const std::vector<Part>& parts, Tensors results,
                              c10::Device device) {
  How used = how;
  used.timeout = limit_of_call(how);
  const std::uint64_t sequence = ++sequence_;
  const std::string name = how.name + (" #" + std::to_string(sequence));
  const c10::Stream stream = gpu_stream_.begin(device);
  const c10::StreamGuard on(stream);
  // Wait for calls of CPU tensors that are in progress.
  constexpr std::chrono::milliseconds while_busy{100};
  std::exception_ptr error;
  const auto enqueue = [&] {
    try {
      enqueue_parts(used, name, parts, stream);
    } catch (...) {
      error = std::current_exception();
    }
  };
  while (!worker_->now(enqueue)) {
    if (worker_->stopped()) {
      error = failure();
      break;
    }
    worker_->drain(while_busy);
  }
  // Also after an error: the streams may go on with what was enqueued before it.
  for (const Part& part : parts)
    for (const Blocks* const blocks : {&part.input, &part.output}) {
      gpu_stream_.keep(blocks->tensors());
      gpu_stream_.keep(blocks->dense());
    }
  if (error != nullptr) std::rethrow_exception(error);
  const bool shows = at::hasCallbacks();
  const std::string title = std::string("penstock:") + how.name;
  const GpuWork::Of of{how.type, shows ? title.c_str() : nullptr, sequence};
  const Tensors shown = shows ? shown_of(parts, results) : Tensors();
  const auto self = c10::intrusive_ptr<Backend>::reclaim_copy(this);
  return c10::make_intrusive<GpuWork>(rank_, of, shown, std::move(results), stream,
                                      gpu_stream_.end(), [self] { return self->failure(); });
}

}  // namespace penstock::torch
