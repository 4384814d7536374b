// The slot form with a Mover. This thread waits for doorbells and releases, invalidates its host's
// copies of the data to be read, writes back published data, and rings the doorbells. Both lanes
// progress side by side. Protocol: docs/protocols/collectives.md, "Data that a GPU moves".
#include "coll/lane_run.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/format.hpp"
#include "coll/missing.hpp"
#include "coll/mover.hpp"

namespace penstock::coll {

void LaneRun::begin(const Call& call, const Prepared& prepared) {
  SlotSignals::begin(call, prepared);
  at_ = {};
  pace_.begin(prepared.program.bytes >= long_call_bytes_);
  const auto& consumers = prepared.schedule.consumers;
  is_read_apart_ = std::any_of(consumers.begin(), consumers.end(),
                               [this](std::uint32_t rank) { return s_.group.apart(rank); });
}

/// `at.pending`: the segment's waits that are not over. A device access.
Result<bool> LaneRun::waits_are_over(const Segment& segment, LaneState& at, Missing& missing) {
  const auto& steps = prepared().schedule.steps;
  if (segment.waits.empty()) return true;
  const bool bells = steps[segment.waits[0]].kind == StepKind::wait;
  if (!at.begun) {
    at.pending.clear();
    for (const std::uint32_t i : segment.waits)
      if (!bells || !is_over(steps[i])) at.pending.push_back(i);
  }
  at.begun = true;
  if (at.pending.empty()) return true;
  std::swap(pending_, at.pending);
  looks_ = pending_;
  Result<void> looked;
  if (bells) looked = look_for_doorbells();
  if (!bells) look_for_releases();
  std::swap(pending_, at.pending);
  if (!looked) return unexpected(looked.error());
  for (const std::size_t i : at.pending) missing.push_back(steps[i].rank);
  return at.pending.empty();
}

/// Whether the gate of the segment must wait for the other lane. When a mover that ends the call
/// has passed its last gate, the program may end: by then, this rank has published all that others
/// need. No gate of the other lane comes behind this one, so none waits for it.
bool LaneRun::comes_too_early(Lane lane, std::size_t segment) const {
  const LaneProgram& program = prepared().program;
  if (lane != Lane::read || segment + 1 != program.of(lane).size()) return false;
  if (!program.ends_quietly || !call().mover->ends_call()) return false;
  return !at_[static_cast<std::size_t>(Lane::write)].has_announced(program.of(Lane::write).size());
}

/// Invalidates this host's copies of the data that the segment reads from other ranks. Errors:
/// mismatch.
Result<void> LaneRun::make_readable(const Segment& segment) {
  const auto& schedule = prepared().schedule;
  bool any = false;
  std::optional<std::uint32_t> lender;
  const auto drop = [&](std::uint32_t rank, std::uint64_t number, std::uint64_t at,
                        std::uint64_t bytes) {
    if (is_lent(rank, number)) lender = rank;
    s_.memory_of(rank).invalidate(chunk(rank, number, at), bytes);
    any = true;
  };
  for (const std::uint32_t i : segment.moves) {
    const Step& step = schedule.steps[i];
    if (step.kind == StepKind::copy) drop(step.rank, step.chunk, step.at, step.span.bytes);
    if (step.kind != StepKind::combine) continue;
    for (std::uint32_t k = 0; k < step.operand_count; ++k) {
      const Operand& value = operand(step, k);
      if (!value.own) drop(value.rank, value.chunk, value.at, step.span.bytes);
    }
  }
  if (any) s_.memory_of_all().load_fence();
  if (!lender) return {};
  return fail(ErrorCode::mismatch,
              "{}: {} leaves its data where its program has it, and a GPU reads only what lies in "
              "the communicator's slots: all ranks enqueue the call, or none",
              call().name, s_.group.name(*lender));
}

/// Writes back the moved data before ranks of other nodes learn of it. Those of this node read what
/// its caches hold; Communicator::write_back_own_slots() follows at the end.
void LaneRun::signal(const Segment& segment) {
  const auto& steps = prepared().schedule.steps;
  for (const std::uint32_t i : segment.moves) {
    const Step& step = steps[i];
    if (step.kind == StepKind::publish && is_read_apart_)
      s_.group.memory.write_back(chunk(s_.self(), step.chunk, step.at), step.span.bytes);
  }
  for (const std::uint32_t i : segment.signals) {
    const Step& step = steps[i];
    step.kind == StepKind::ring ? ring(step) : release(step);
  }
  s_.send_off();
}

/// Returns true when the lane is done.
Result<bool> LaneRun::advance_lane(Lane lane, Missing& missing) {
  const auto& segments = prepared().program.of(lane);
  LaneState& at = at_[static_cast<std::size_t>(lane)];
  for (; at.segment < segments.size(); ++at.segment, ++next_) {
    const Segment& segment = segments[at.segment];
    if (at.stage == Stage::waits) {
      if (!PENSTOCK_TRY(waits_are_over(segment, at, missing))) return false;
      if (comes_too_early(lane, at.segment)) {
        missing.push_back(s_.self());
        return false;
      }
      PENSTOCK_TRY(make_readable(segment));
      if (segment.gate) call().mover->allow(lane, at.segment);
      at.stage = Stage::moves;
      at.bytes += segment.bytes;
      if (segment.mark) pace_.move(lane, std::exchange(at.bytes, 0));
    }
    if (segment.mark && !call().mover->is_done(lane, at.segment)) {
      missing.push_back(s_.self());
      return false;
    }
    signal(segment);
    at.stage = Stage::waits;
    at.begun = false;
    if (segment.mark) at.segment + 1 < segments.size() ? pace_.wait(lane) : pace_.end(lane);
  }
  return true;
}

Result<bool> LaneRun::advance(Missing& missing) {
  if (!is_half_free(missing)) return false;
  missing.clear();
  const bool written = PENSTOCK_TRY(advance_lane(Lane::write, missing));
  const bool read = PENSTOCK_TRY(advance_lane(Lane::read, missing));
  if (!written || !read) {
    drop_repeated(missing);
    return false;
  }
  pace_.end_call();
  s_.finish(false, prepared().read_by_all);
  return true;
}

}  // namespace penstock::coll
