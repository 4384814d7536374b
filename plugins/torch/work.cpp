#include "work.hpp"

#include <ATen/core/ivalue.h>

#include <thread>

namespace penstock::torch {

Work::Work(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
           std::uint64_t sequence, std::vector<at::Tensor> outputs)
    : c10d::Work(rank, type, title, title != nullptr ? std::optional(inputs) : std::nullopt),
      sequence_(sequence),
      outputs_(std::move(outputs)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

bool Work::isSuccess() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return completed_ && exception_ == nullptr;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  // A wake-up takes longer than many a collective.
  constexpr int looks = 2000;
  for (int look = 0; look < looks && !isCompleted(); ++look) {
    if (look % 16 == 15) std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const auto over = [this] { return completed_; };
  if (timeout == kNoTimeout) {
    cv_.wait(lock, over);
  } else if (!cv_.wait_for(lock, timeout, over)) {
    TORCH_CHECK(false, "penstock: ", c10d::opTypeToString(opType_), " #", sequence_,
                " has not ended within ", timeout.count(), " ms");
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void Work::end(const std::exception_ptr& error) {
  if (error == nullptr) {
    finish();
    done_.store(true, std::memory_order_release);
    future_->markCompleted(at::IValue(outputs_));
    return;
  }
  finish(error);
  done_.store(true, std::memory_order_release);
  future_->setError(error);
}

}  // namespace penstock::torch
