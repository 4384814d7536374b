// A call through a switch whose data a Mover moves, a GPU's streams: they were told before where
// operands and results lie, so this rank's slot and the one of its switch are all that counts.
// Protocol: docs/protocols/switch.md, "Data that a GPU moves".
#include "coll/mover.hpp"
#include "coll/switch_run.hpp"

namespace penstock::coll {

std::optional<SwitchPlan> SwitchRun::plan_of_moved(const Call& call) const {
  if (!region_ || all_left_ || !call.plan.in_switch) return std::nullopt;
  const Reduction* const reduction =
      call.arithmetic == nullptr ? nullptr : call.arithmetic->predefined();
  auto plan = switch_plan_of(*call.problem, reduction, region_->shape());
  // Who writes packets does not see the data.
  if (plan) plan->inlined = false;
  return plan;
}

std::byte* SwitchRun::moved_chunk(std::uint64_t first, std::uint32_t rank,
                                  std::uint64_t chunk) const {
  const bool of_switch = rank == s_.group.ranks();
  return s_.group.pool.base() + (of_switch ? region_->result(own_switch_, first + chunk)
                                           : region_->source(s_.self(), first + chunk));
}

bool SwitchRun::is_operand_there(std::uint64_t chunk) {
  return !is_moved() || call().mover->is_done(Lane::write, chunk);
}

/// Writes over PCIe may lie in this host's caches.
void SwitchRun::send_operand(std::uint64_t chunk) {
  const std::uint64_t bytes = plan_.segments * SwitchPlan::stride(plan_.part(chunk).bytes);
  s_.group.memory.write_back(moved_chunk(base_, s_.self(), chunk), bytes);
  s_.group.memory.store_fence();  // the operand first, then its packet
}

/// A read over PCIe is answered from this host's caches, where they hold the line: an old copy.
void SwitchRun::let_take(const offload::Completion& completion) {
  const std::uint64_t bytes = plan_.result_segments * SwitchPlan::stride(plan_.part(taken_).bytes);
  s_.group.memory.invalidate(s_.group.pool.base() + completion.result, bytes);
  s_.group.memory.load_fence();
  call().mover->allow(Lane::read, taken_);
  moving_ = true;
}

/// The result of the next chunk is where it belongs.
bool SwitchRun::has_moved() {
  if (!call().mover->is_done(Lane::read, taken_)) return false;
  moving_ = false;
  ++taken_;
  return true;
}

/// Another leaf's ranks find their results elsewhere.
bool SwitchRun::is_for_us(std::uint32_t ring, const offload::Packet& packet) const {
  const auto completion =
      offload::read_completion(packet, region_->completion_place(ring, index_of(taken_)));
  return completion && (completion->status != offload::Status::ok || fits(*completion));
}

/// The streams do what they were given: they read old results from here on, over input too where a
/// call is in place. So the input comes to the host before.
Result<bool> SwitchRun::come_to_host(Missing& missing) {
  Mover& mover = *call().mover;
  const std::uint64_t last = plan_.chunks - 1;
  missing = {s_.self()};
  if (stage_ == Stage::fetching) {
    mover.allow(Lane::write, last);
    if (!mover.is_done(Lane::write, last)) return false;
    PENSTOCK_TRY(staged_.fetch(call(), done_bytes()));
    mover.allow(Lane::read, last);
    stage_ = Stage::running_out;
  }
  if (!mover.is_done(Lane::read, last)) return false;
  // Nothing that streams have left in this host's caches outlives the region. It leaves with what
  // this rank publishes next, at the end of the call at the latest.
  const auto& shape = region_->shape();
  s_.group.memory.write_back(moved_chunk(0, s_.self(), 0), shape.window * shape.slot_bytes);
  go_on_as(staged_.on_host(call()));
  stage_ = Stage::taking;
  return true;
}

}  // namespace penstock::coll
