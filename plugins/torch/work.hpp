// A collective that was called, as PyTorch sees it.
#pragma once

#include <atomic>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace penstock::torch {

class Work : public c10d::Work {
 public:
  /// `outputs`: what its future holds.
  Work(int rank, c10d::OpType type, std::uint64_t sequence, std::vector<at::Tensor> outputs)
      : Work(rank, type, nullptr, {}, sequence, std::move(outputs)) {}
  /// `title`: of the profiler's event, which shows the shapes of `inputs`; null: none.
  Work(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
       std::uint64_t sequence, std::vector<at::Tensor> outputs);

  /// Also where end() is not through: who has waited finds it completed.
  bool isCompleted() override {
    return done_.load(std::memory_order_acquire) || c10d::Work::isCompleted();
  }
  bool isSuccess() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  int sourceRank() const override { return source_; }
  std::uint64_t getSequencenumber() const override { return sequence_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  void synchronize() override {}

  /// Of a receive from anybody, before it is finished.
  void set_source(int rank) { source_ = rank; }
  /// Once. `error`: null where it went well.
  void end(const std::exception_ptr& error);

 private:
  void complete(c10::ivalue::Future& future) const;

  std::atomic<bool> done_{false};
  std::uint64_t sequence_;
  int source_ = -1;
  std::vector<at::Tensor> outputs_;
  std::mutex future_mutex_;                         ///< of future_ and error_
  c10::intrusive_ptr<c10::ivalue::Future> future_;  ///< made for who asks: most do not
  std::exception_ptr error_;
};

}  // namespace penstock::torch
