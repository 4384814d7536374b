#include "work.hpp"

#include <ATen/core/ivalue.h>

#include <thread>

#include "timeout.hpp"

namespace penstock::torch {

namespace {

void complete(c10::ivalue::Future& future, const std::vector<at::Tensor>& outputs,
              const std::exception_ptr& error) {
  if (error == nullptr)
    future.markCompleted(at::IValue(outputs));
  else
    future.setError(error);
}

}  // namespace

std::exception_ptr Outcome::error() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return error_;
}

bool Outcome::wait(std::chrono::milliseconds timeout) {
  // A wake-up takes longer than many collectives, so poll first.
  constexpr int looks = 2000;
  for (int look = 0; look < looks && !is_done(); ++look) {
    if (look % 16 == 15) std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const auto over = [this] { return is_done(); };
  if (timeout != kNoTimeout) return ended_.wait_for(lock, limit_of(timeout), over);
  ended_.wait(lock, over);
  return true;
}

void Outcome::completes(const Future& future, const std::vector<at::Tensor>& outputs) {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!is_done()) {
      future_ = future;
      outputs_ = outputs;
      return;
    }
  }
  complete(*future, outputs, error());
}

/// Returns the future that is still to be completed, if any, and its outputs.
std::pair<Outcome::Future, std::vector<at::Tensor>> Outcome::finish(
    const std::exception_ptr& error) {
  std::pair<Future, std::vector<at::Tensor>> asked;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    error_ = error;
    if (at_end_) std::exchange(at_end_, nullptr)();
    asked = {std::move(future_), std::move(outputs_)};
    done_.store(true, std::memory_order_release);
  }
  ended_.notify_all();
  return asked;
}

void Outcome::end(const std::exception_ptr& error) {
  const auto [asked, outputs] = finish(error);
  // Not under the lock, because it runs callbacks.
  if (asked != nullptr) complete(*asked, outputs, error);
}

/// Wakes the threads that wait for the call, but does not complete its future, whose callbacks are
/// probably Python's.
void Outcome::end_without_python(const std::exception_ptr& error) {
  keep_for_good(finish(error));
}

Work::Work(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
           std::uint64_t sequence, std::vector<at::Tensor> outputs)
    : c10d::Work(rank, type, title, title != nullptr ? std::optional(inputs) : std::nullopt),
      outcome_(std::make_shared<Outcome>()),
      sequence_(sequence),
      outputs_(std::move(outputs)) {
  if (recordFunctionEndCallback_)
    outcome_->at_end(std::exchange(recordFunctionEndCallback_, nullptr));
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  const std::lock_guard<std::mutex> guard(future_mutex_);
  if (future_ != nullptr) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
  outcome_->completes(future_, outputs_);
  return future_;
}

bool Work::wait(std::chrono::milliseconds timeout) {
  TORCH_CHECK(outcome_->wait(timeout), "penstock: ", c10d::opTypeToString(opType_), " #", sequence_,
              " has not ended within ", timeout.count(), " ms");
  if (const auto error = outcome_->error()) std::rethrow_exception(error);
  return true;
}

}  // namespace penstock::torch
