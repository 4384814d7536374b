#include "work.hpp"

#include <ATen/core/ivalue.h>

#include <thread>

#include "timeout.hpp"

namespace penstock::torch {

Work::Work(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
           std::uint64_t sequence, std::vector<at::Tensor> outputs)
    : c10d::Work(rank, type, title, title != nullptr ? std::optional(inputs) : std::nullopt),
      sequence_(sequence),
      outputs_(std::move(outputs)) {}

bool Work::isSuccess() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return completed_ && exception_ == nullptr;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  // A wake-up takes longer than many a collective.
  constexpr int looks = 2000;
  for (int look = 0; look < looks && !done_.load(std::memory_order_acquire); ++look) {
    if (look % 16 == 15) std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const auto over = [this] { return completed_; };
  if (timeout == kNoTimeout) {
    cv_.wait(lock, over);
  } else if (!cv_.wait_for(lock, limit_of(timeout), over)) {
    TORCH_CHECK(false, "penstock: ", c10d::opTypeToString(opType_), " #", sequence_,
                " has not ended within ", timeout.count(), " ms");
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  const std::lock_guard<std::mutex> guard(future_mutex_);
  if (future_ != nullptr) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
  if (done_.load(std::memory_order_relaxed)) complete(*future_);
  return future_;
}

/// Where done_ is set already.
void Work::complete(c10::ivalue::Future& future) const {
  if (error_ == nullptr)
    future.markCompleted(at::IValue(outputs_));
  else
    future.setError(error_);
}

void Work::end(const std::exception_ptr& error) {
  finish(error);
  c10::intrusive_ptr<c10::ivalue::Future> asked;
  {
    const std::lock_guard<std::mutex> guard(future_mutex_);
    error_ = error;
    done_.store(true, std::memory_order_release);
    asked = future_;
  }
  // Not under the lock: it calls what waits for it.
  if (asked != nullptr) complete(*asked);
}

}  // namespace penstock::torch
