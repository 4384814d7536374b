#include "coll/execution.hpp"

#include <algorithm>
#include <utility>

namespace penstock::coll {

namespace {

/// Longer than any part of a chunk.
constexpr std::uint64_t no_zero_copy_bytes = 1ull << 48;

std::unique_ptr<SwitchExecutor> switch_executor(State& state, const Options& options) {
  // Packets with short data would not reach a GPU.
  return options.in_switch ? options.in_switch->open(state, !options.mixed) : nullptr;
}

/// The same problem without the first `done` bytes of each block.
Problem rest_of(const Problem& problem, std::uint64_t done) {
  Problem rest = problem;
  const auto shorten = [done](Block& block) {
    const std::uint64_t bytes = std::min(done, block.bytes);
    block.offset += bytes;
    block.bytes -= bytes;
  };
  for (Block& block : rest.input) shorten(block);
  for (Block& block : rest.output) shorten(block);
  if (rest.max_block_bytes) *rest.max_block_bytes -= std::min(done, *rest.max_block_bytes);
  return rest;
}

}  // namespace

Execution::Execution(State& state, const PreparedSchedules& schedules, const Options& options)
    : s_(state),
      schedules_(schedules),
      eager_(state),
      slots_(state, readers_, options.mixed ? no_zero_copy_bytes : options.zero_copy_bytes),
      lanes_(state, readers_, options.long_call_bytes),
      in_switch_(switch_executor(state, options)),
      late_slots_(state, options.take_slots) {}

void Execution::begin(const Call& call, const Prepared& prepared) {
  call_ = call;
  if (in_switch_ == nullptr || !in_switch_->takes(call, prepared)) return begin_in_pool(prepared);
  now_ = in_switch_.get();
  now_->begin(call, prepared);
}

void Execution::begin_in_pool(const Prepared& prepared) {
  now_ = prepared.plan.eager ? &eager_ : &by_slots();
  if (prepared.plan.eager || can_begin_by_slots(prepared)) return now_->begin(call_, prepared);
  awaits_slots_ = &prepared;
}

/// A barrier needs no slots, only doorbells. The result is the same on all ranks.
bool Execution::can_begin_by_slots(const Prepared& prepared) const {
  if (prepared.problem.collective == Collective::barrier) return true;
  return s_.slots.are_there() && prepared.plan.slot_bytes <= s_.slots.slot_bytes();
}

/// The call may have been prepared for longer slots.
Result<bool> Execution::begin_once_slots_are_there(Missing& missing) {
  if (!s_.slots.are_there() && !PENSTOCK_TRY(late_slots_.obtain(call_.name, missing))) return false;
  const Prepared* whole = std::exchange(awaits_slots_, nullptr);
  if (!can_begin_by_slots(*whole)) {
    Plan plan = whole->plan;
    plan.slot_bytes = s_.slots.slot_bytes();
    remade_ = PENSTOCK_TRY(schedules_.make(whole->problem, plan));
    whole = remade_.get();
  }
  now_->begin(call_, *whole);
  return true;
}

Result<bool> Execution::go_on_in_pool(Missing& missing) {
  const Prepared& whole = in_switch_->prepared();
  const std::uint64_t done = in_switch_->done_bytes();
  call_ = in_switch_->call();
  if (done == 0 && whole.switch_packets == 0) {
    begin_in_pool(whole);
  } else {
    remade_ = PENSTOCK_TRY(schedules_.make(rest_of(whole.problem, done), whole.plan));
    begin_in_pool(*remade_);
  }
  return advance(missing);
}

Result<bool> Execution::advance(Missing& missing) {
  if (awaits_slots_ != nullptr && !PENSTOCK_TRY(begin_once_slots_are_there(missing))) [[unlikely]]
    return false;
  Result<bool> done = now_->advance(missing);
  if (in_switch_ != nullptr && done) done = after_advance(*done, missing);
  return done;
}

/// For communicators that have a switch.
Result<bool> Execution::after_advance(bool done, Missing& missing) {
  if (!done && is_in_switch() && in_switch_->has_stopped()) return go_on_in_pool(missing);
  if (done) PENSTOCK_TRY(in_switch_->give_staged());
  return done;
}

std::uint64_t Execution::position() const {
  // The part that the switch has left comes after all positions in the switch.
  constexpr std::uint64_t in_pool = 1ull << 62;
  return is_in_switch() ? now_->position() : in_pool | now_->position();
}

}  // namespace penstock::coll
