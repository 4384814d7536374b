// A call through a switch whose data a Mover moves, such as a GPU's streams. The streams learn in
// advance where operands and results lie, so the call uses only this rank's slot and that of its
// switch. Protocol: docs/protocols/switch.md, "Data that a GPU moves".
#include "coll/mover.hpp"
#include "offload/switch_run.hpp"

namespace penstock::coll {

std::uint64_t SwitchRun::packets_of_moved(const Call& call) const {
  if (all_left_ || !call.plan.in_switch) return 0;
  const auto plan = plan_of(call, *call.problem);
  return plan ? plan->chunks : 0;
}

Schedule SwitchRun::schedule_of_moved(const Call& call) const {
  return switch_schedule_of(*call.problem, *plan_of(call, *call.problem), call.plan.slots);
}

std::byte* SwitchRun::moved_chunk(std::uint64_t first, std::uint32_t rank,
                                  std::uint64_t chunk) const {
  const bool of_switch = rank == s_.group.ranks();
  return s_.group.pool.base() + (of_switch ? region_.result(own_switch_, first + chunk)
                                           : region_.source(s_.self(), first + chunk));
}

void SwitchRun::drop_copies_of_operands() {
  const auto& shape = region_.shape();
  s_.group.memory.invalidate(moved_chunk(0, s_.self(), 0), shape.window * shape.slot_bytes);
}

bool SwitchRun::is_operand_there(std::uint64_t chunk) {
  return !is_moved() || call().mover->is_done(Lane::write, chunk);
}

/// The GPU's stores over PCIe may be in this host's caches.
void SwitchRun::send_operand(std::uint64_t chunk) {
  const std::uint64_t bytes = plan_.segments * SwitchPlan::stride(plan_.part(chunk).bytes);
  s_.group.memory.write_back(moved_chunk(base_, s_.self(), chunk), bytes);
  s_.group.memory.store_fence();  // the operand first, then its packet
}

/// This host's caches answer reads over PCIe if they hold the line, and that copy may be old.
void SwitchRun::let_take(const offload::Completion& completion) {
  const std::uint64_t bytes = plan_.result_segments * SwitchPlan::stride(plan_.part(taken_).bytes);
  s_.group.memory.invalidate(s_.group.pool.base() + completion.result, bytes);
  s_.group.memory.load_fence();
  call().mover->allow(Lane::read, taken_);
  moving_ = true;
}

/// True when the result of the next chunk is at its destination.
bool SwitchRun::has_moved() {
  if (!call().mover->is_done(Lane::read, taken_)) return false;
  moving_ = false;
  ++taken_;
  return true;
}

/// Ranks of another leaf find their results elsewhere.
bool SwitchRun::is_for_us(std::uint32_t ring, const offload::Packet& packet) const {
  const auto completion =
      offload::read_completion(packet, region_.completion_place(ring, index_of(taken_)));
  return completion && (completion->status != offload::Status::ok || fits(*completion));
}

/// Lets the streams run out. They read old results from here on and, in place, overwrite the input.
/// So the host fetches the input first.
Result<bool> SwitchRun::hand_over_to_host(Missing& missing) {
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
  // Writes back what streams have left in this host's caches, so that nothing outlives the region.
  // It is flushed with this rank's next publish, at the end of the call at the latest.
  const auto& shape = region_.shape();
  s_.group.memory.write_back(moved_chunk(0, s_.self(), 0), shape.window * shape.slot_bytes);
  go_on_as(staged_.on_host(call()));
  stage_ = Stage::taking;
  return true;
}

}  // namespace penstock::coll
