// The slot form: steps run in list order. A chunk is copied into a slot, and then its doorbell is
// rung. A reader that has seen the doorbell invalidates its copies of the slot and reads it. The
// doorbells of a round are polled together, and its small chunks are read together, for one device
// access each (together.hpp). Source: CCCL, sections 3 and 4.
#include "coll/slot_run.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "coll/zero_copy.hpp"
#include "schedule/together.hpp"

namespace penstock::coll {

namespace {

/// Zero copy pays off in calls with at least this many parts of the minimum length. Data that fits
/// the caches is copied faster than it is written back and fetched from the device.
constexpr std::uint64_t parts_that_pay = 128;

std::uint64_t bytes_of(const std::vector<Block>& blocks) {
  std::uint64_t bytes = 0;
  for (const Block& block : blocks) bytes += block.bytes;
  return bytes;
}

}  // namespace

void SlotRun::begin(const Call& call, const Prepared& prepared) {
  SlotSignals::begin(call, prepared);
  open_chunk_ = lent_ = 0;
  not_back_.clear();
  for (const std::uint32_t rank : lenders_) borrowed_[rank] = 0;
  lenders_.clear();
}

/// Whether the chunk that this step begins to publish stays in the user's buffer. All of it must
/// lie in the pool in whole lines, the call must store nothing there, and all readers of this rank
/// must read it, so that each releases it.
bool SlotRun::stays(std::size_t publish) const {
  const Problem& problem = prepared().problem;
  const auto& steps = prepared().schedule.steps;
  const std::size_t readers = prepared().schedule.consumers.size();
  const std::uint64_t most = std::max(bytes_of(problem.input), bytes_of(problem.output));
  if (most < parts_that_pay * zero_copy_bytes_) return false;
  // A rank that forwards shares reads from the middle of parts.
  if (prepared().plan.algorithm >= Algorithm::two_level) return false;
  const bool input_stays =
      !problem.in_place || !(is_reduction(problem.collective) || spreads(problem.collective));
  for (std::size_t i = publish; steps[i].kind == StepKind::publish; ++i) {
    const Span& span = steps[i].span;
    const bool still =
        span.buffer == Buffer::output || (span.buffer == Buffer::input && input_stays);
    if (!still || span.bytes < zero_copy_bytes_ || steps[i].readers != readers) return false;
    if (!lines_in_pool(s_.group.pool, from(span), span.bytes)) return false;
  }
  return true;
}

void SlotRun::publish(std::size_t index) {
  const Step& step = prepared().schedule.steps[index];
  if (open_chunk_ != step.chunk + 1) {
    open_chunk_ = step.chunk + 1;
    open_stays_ = stays(index);
  }
  std::byte* const slot = chunk(s_.self(), step.chunk, step.at);
  const std::byte* const data = from(step.span);
  if (!open_stays_) return s_.group.memory.publish_bulk(slot, data, step.span.bytes);
  s_.group.memory.write_back(data, step.span.bytes);
  const PartPlace place =
      place_of(s_.doorbell_word(step.chunk), *s_.group.pool.offset_of(data), step.span.bytes);
  s_.group.memory.publish_line(slot, &place);
}

void SlotRun::ring(const Step& step) {
  const bool stays = open_stays_ && open_chunk_ == step.chunk + 1;
  if (stays) lent_ = open_chunk_;
  SlotSignals::ring(step, stays);
}

/// Address of a part of a chunk that has arrived: in its slot, or in its producer's buffer. The
/// second case takes a device access. Errors: wrong_format.
Result<const std::byte*> SlotRun::find(std::uint32_t producer, std::uint64_t number,
                                       std::uint64_t at, std::uint64_t bytes) {
  const std::byte* const slot = chunk(producer, number, at);
  if (!is_lent(producer, number)) return slot;
  PartPlace place;
  s_.memory_of(producer).observe_line(&place, slot);
  const std::byte* const data = part_at(s_.group.pool, place, s_.doorbell_word(number), bytes);
  if (data == nullptr)
    return fail(ErrorCode::wrong_format,
                "{}: {} says where chunk {} lies, and what it says was overwritten", call().name,
                s_.group.name(producer), number);
  if (borrowed_[producer] == 0) lenders_.push_back(producer);
  borrowed_[producer] = std::max(borrowed_[producer], number + 1);
  return data;
}

/// Does the copies from `next_` on that belong together, and the steps between them.
Result<void> SlotRun::copy_together() {
  const auto& steps = prepared().schedule.steps;
  const std::size_t end =
      end_of_copies(steps, next_, [this](const Step& step) { return is_over(step); });
  sources_.clear();
  for (std::size_t i = next_; i < end; ++i) {
    const Step& step = steps[i];
    if (step.kind != StepKind::copy) continue;
    sources_.push_back(PENSTOCK_TRY(find(step.rank, step.chunk, step.at, step.span.bytes)));
    s_.memory_of(step.rank).invalidate(sources_.back(), step.span.bytes);
  }
  s_.memory_of_all().load_fence();
  std::size_t taken = 0;
  for (; next_ < end; ++next_) {
    const Step& step = steps[next_];
    if (step.kind == StepKind::copy)
      s_.memory_of(step.rank).load_bulk(to(step.span), sources_[taken++], step.span.bytes);
    if (step.kind == StepKind::release) release(step);
  }
  return {};
}

Result<void> SlotRun::combine_chunks(const Step& step) {
  sources_.clear();
  for (std::uint32_t i = 0; i < step.operand_count; ++i) {
    const Operand& value = operand(step, i);
    if (value.own) {
      sources_.push_back(from(value.span));
      continue;
    }
    sources_.push_back(PENSTOCK_TRY(find(value.rank, value.chunk, value.at, step.span.bytes)));
    s_.memory_of(value.rank).invalidate(sources_.back(), step.span.bytes);
  }
  s_.memory_of_all().load_fence();
  combine(step, [&](std::uint32_t i, std::uint64_t at, std::size_t bytes, std::byte* staging) {
    const Operand& value = operand(step, i);
    if (value.own) return sources_[i] + at;
    s_.memory_of(value.rank).load_bulk(staging, sources_[i] + at, bytes);
    return static_cast<const std::byte*>(staging);
  });
  return {};
}

/// Releases the chunks that this rank has read in their producers' buffers. A producer that has
/// given up the call may have changed them since, so this also checks for failures. A device access
/// if there are any.
Result<void> SlotRun::give_back_borrowed() {
  if (lenders_.empty()) return {};
  for (const std::uint32_t rank : lenders_)
    s_.memory_of(rank).invalidate(s_.at(s_.layout.failed(rank)), 8);
  s_.memory_of_all().load_fence();
  for (const std::uint32_t rank : lenders_) {
    const std::uint64_t failure = s_.memory_of(rank).load_word(s_.at(s_.layout.failed(rank)));
    if (failure != 0) return unexpected(s_.failure_of(call().name, rank, failure));
    const std::uint64_t word = chunk_word(s_.number, std::exchange(borrowed_[rank], 0));
    if (word <= s_.own.released(rank)) continue;
    s_.own.publish_word(OwnWords::Release{rank}, word);
    s_.published();
  }
  lenders_.clear();
  return {};
}

/// True if all ranks have read the chunks that stay in the user's buffer. A device access.
bool SlotRun::all_given_back(Missing& missing) {
  if (lent_ == 0) return true;
  if (not_back_.empty()) not_back_ = prepared().schedule.consumers;
  const auto& memory = s_.memory_of_all();
  const auto word = [&](std::uint32_t rank) { return s_.at(s_.layout.release(s_.self(), rank)); };
  for (const std::uint32_t rank : not_back_) memory.invalidate(word(rank), 8);
  memory.load_fence();
  std::erase_if(not_back_, [&](std::uint32_t rank) {
    return memory.load_word(word(rank)) >= chunk_word(s_.number, lent_);
  });
  missing.assign(not_back_.begin(), not_back_.end());
  return missing.empty();
}

/// Waits for the steps of one kind from `next_` on. The first look covers the doorbells of the
/// whole round. A rank that must wait then polls only the next ones.
Result<bool> SlotRun::wait_for_run(StepKind kind, Missing& missing) {
  const auto& steps = prepared().schedule.steps;
  const bool bells = kind == StepKind::wait;
  if (pending_.empty()) {
    run_end_ = next_;
    for (; run_end_ < steps.size() && steps[run_end_].kind == kind; ++run_end_)
      if (!bells || !is_over(steps[run_end_])) pending_.push_back(run_end_);
    looks_.clear();
    if (bells && !pending_.empty())
      for_waits_together(steps, next_, [&](std::size_t i) {
        if (!is_over(steps[i])) looks_.push_back(i);
      });
  } else {
    looks_ = pending_;
  }
  if (!pending_.empty()) {
    if (bells) PENSTOCK_TRY(look_for_doorbells());
    if (!bells) look_for_releases();
  }
  if (pending_.empty()) {
    next_ = run_end_;
    return true;
  }
  missing.clear();
  for (const std::size_t i : pending_) missing.push_back(steps[i].rank);
  return false;
}

Result<void> SlotRun::take(std::size_t index) {
  const Step& step = prepared().schedule.steps[index];
  switch (step.kind) {
    case StepKind::publish:
      publish(index);
      break;
    case StepKind::ring:
      ring(step);
      break;
    case StepKind::move:
      move(step);
      break;
    case StepKind::combine:
      return combine_chunks(step);
    case StepKind::release:
      release(step);
      break;
    default:
      break;
  }
  return {};
}

Result<bool> SlotRun::advance(Missing& missing) {
  const auto& steps = prepared().schedule.steps;
  if (!is_half_free(missing)) return false;
  while (next_ < steps.size()) {
    const std::size_t first = next_;
    const StepKind kind = steps[next_].kind;
    if (kind == StepKind::wait || kind == StepKind::await_release) {
      s_.send_off();
      if (!PENSTOCK_TRY(wait_for_run(kind, missing))) return false;
    } else if (kind == StepKind::copy) {
      PENSTOCK_TRY(copy_together());
    } else {
      PENSTOCK_TRY(take(next_++));
    }
    done(first, next_);
  }
  PENSTOCK_TRY(give_back_borrowed());
  s_.send_off();
  if (!all_given_back(missing)) return false;
  s_.finish(false, prepared().read_by_all);
  return true;
}

}  // namespace penstock::coll
