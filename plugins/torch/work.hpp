// A collective call as PyTorch sees it, and its outcome.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "python_end.hpp"

namespace penstock::torch {

/// The part of a call that the worker's thread owns. It holds no tensor once the call has ended, so
/// the thread may be the last to release it.
class Outcome {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  std::exception_ptr error() const;
  /// Waits for the end. False: not within `timeout`.
  bool wait(std::chrono::milliseconds timeout);
  /// For a receive from any rank. Call it before the end.
  void set_source(int rank) { source_ = rank; }
  int source() const { return source_; }
  /// Sets a function to call at the end.
  void at_end(std::function<void()> call) { at_end_ = std::move(call); }
  /// Completes `future` with `outputs` at the end, or now if it has ended.
  void completes(const Future& future, const std::vector<at::Tensor>& outputs);

  /// Ends the call. Call it once. `error`: null on success.
  void end(const std::exception_ptr& error);
  /// Like end(), in a thread of ours. First releases `held`: all tensors of the call that the
  /// thread still holds.
  template <class Held>
  void end_in_thread(const std::exception_ptr& error, Held held) {
    const PythonTurn turn;
    if (!turn) {
      keep_for_good(std::move(held));
      return end_without_python(error);
    }
    { const Held gone = std::move(held); }
    end(error);
  }

 private:
  std::pair<Future, std::vector<at::Tensor>> finish(const std::exception_ptr& error);
  void end_without_python(const std::exception_ptr& error);

  std::atomic<bool> done_{false};
  std::atomic<int> source_{-1};
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::exception_ptr error_;
  std::function<void()> at_end_;
  Future future_;
  std::vector<at::Tensor> outputs_;  ///< of future_
};

class Work : public c10d::Work {
 public:
  /// `outputs`: the value of its future.
  Work(int rank, c10d::OpType type, std::uint64_t sequence, std::vector<at::Tensor> outputs)
      : Work(rank, type, nullptr, {}, sequence, std::move(outputs)) {}
  /// `title`: of the profiler's event, which shows the shapes of `inputs`; null: no event.
  Work(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
       std::uint64_t sequence, std::vector<at::Tensor> outputs);

  bool isCompleted() override { return outcome_->is_done(); }
  bool isSuccess() const override { return outcome_->is_done() && outcome_->error() == nullptr; }
  std::exception_ptr exception() const override { return outcome_->error(); }
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  int sourceRank() const override { return outcome_->source(); }
  std::uint64_t getSequencenumber() const override { return sequence_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  void synchronize() override {}

  const std::shared_ptr<Outcome>& outcome() const { return outcome_; }

 private:
  std::shared_ptr<Outcome> outcome_;
  std::uint64_t sequence_;
  std::vector<at::Tensor> outputs_;
  std::mutex future_mutex_;
  Outcome::Future future_;  ///< created on request, because most callers need none
};

}  // namespace penstock::torch
