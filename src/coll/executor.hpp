// One way to run the steps of a collective, and the call that it has in progress. A communicator
// gives each call to one of its executors (execution.hpp):
//
//   EagerRun        the host, in tagged lines                       eager_run.hpp
//   SlotRun         the host, in slots with doorbells               slot_run.hpp
//   LaneRun         a Mover such as a GPU's streams, in slots       lane_run.hpp
//   SwitchExecutor  a switch that computes, of a module apart       switch_interface.hpp
//
// Calls that a GPU runs by itself need none: direct.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "coll/communicator.hpp"
#include "coll/prepared.hpp"
#include "coll/state.hpp"
#include "coll/trace.hpp"

namespace penstock::coll {

class Executor {
 public:
  explicit Executor(State& state) : s_(state), trace_(Trace::of_process()) {}
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Begins a call. Its collective has its number already (State::begin_call()). `prepared` and all
  /// that the call names must stay until the call is done.
  virtual void begin(const Call& call, const Prepared& prepared);
  /// Does all steps that need no wait, or looks once at what is awaited. Returns true when the call
  /// is done. `missing`: the ranks awaited; this rank, if it waits for its own Mover. Errors: those
  /// of Communicator::run().
  virtual Result<bool> advance(Missing& missing) = 0;
  /// Changes as the call progresses.
  virtual std::uint64_t position() const = 0;
  /// Called between two looks of a wait. Sleeps while nothing can have happened.
  virtual void rest() {}

  const Call& call() const { return call_; }
  const Prepared& prepared() const { return *prepared_; }

 protected:
  std::byte* to(const Span& span);
  const std::byte* from(const Span& span) const;
  void move(const Step& step);
  /// `operand(i, at, bytes, staging)`: returns `bytes` bytes of operand i from byte `at` on. It may
  /// copy them into `staging`.
  template <class Fetch>
  void combine(const Step& step, const Fetch& operand) {
    const Arithmetic& arithmetic = *call_.arithmetic;
    const std::size_t piece = arithmetic.piece_bytes();
    std::byte* const result = to(step.span);
    for (std::uint64_t at = 0; at < step.span.bytes; at += piece) {
      const std::size_t bytes = std::min<std::uint64_t>(piece, step.span.bytes - at);
      if (step.operand_count == 1 && !arithmetic.changes_one()) {  // unchanged
        std::memmove(result + at, operand(0, at, bytes, pieces_[0].data()), bytes);
        continue;
      }
      if (step.operand_count == 2) {
        const std::byte* const left = operand(0, at, bytes, pieces_[0].data());
        arithmetic.pair(result + at, left, operand(1, at, bytes, pieces_[1].data()), bytes,
                        accumulator_.data());
        continue;
      }
      for (std::uint32_t i = 0; i < step.operand_count; ++i) {
        const std::byte* const value = operand(i, at, bytes, pieces_[0].data());
        if (i == 0) arithmetic.first(accumulator_.data(), value, bytes);
        if (i != 0) arithmetic.add(accumulator_.data(), value, bytes);
      }
      arithmetic.finish(result + at, accumulator_.data(), bytes);
    }
  }
  const Operand& operand(const Step& step, std::uint32_t i) const {
    return prepared_->schedule.operands[step.first_operand + i];
  }
  /// Continues the call in progress as another call, for the same problem.
  void go_on_as(const Call& call) { call_ = call; }
  /// Call this when the steps from `first` to `end` are done and all earlier steps were recorded.
  void done(std::size_t first, std::size_t end) {
    if (trace_ != nullptr) [[unlikely]]
      record(first, end);
  }

  State& s_;

 private:
  void record(std::size_t first, std::size_t end);

  Trace* const trace_;
  std::uint64_t recorded_until_ns_ = 0;
  Call call_;
  const Prepared* prepared_ = nullptr;
  std::vector<std::byte> scratch_;
  alignas(64) std::array<std::byte, Reduction::accumulator_bytes> accumulator_;
  alignas(64) std::array<std::array<std::byte, Arithmetic::max_piece_bytes>, 2> pieces_;
};

}  // namespace penstock::coll
