// The form by slots: steps in the order of their list. A chunk is copied into a slot, then its
// doorbell is rung; a reader that has seen the doorbell drops its copies of the slot and reads.
// Consecutive waits are looked at together, for one device access. Source: CCCL, sections 3 and 4;
// papers/4-collectives.md, 4.6 (slots that are used again), 4.9.
#include "coll/running.hpp"

namespace penstock::coll {

void SlotRun::begin(const Call& call, const Prepared& prepared) {
  Running::begin(call, prepared);
  placement_ = placement_of(prepared.problem.collective, prepared.plan.variant);
  next_ = 0;
  free_ = false;
  pending_.clear();
}

std::byte* SlotRun::chunk(std::uint32_t producer, std::uint64_t number, std::uint64_t at) const {
  return s_.slots.at(placement_, producer, s_.number, number) + at;
}

void SlotRun::publish(const Step& step) {
  s_.group.memory.publish_bulk(chunk(s_.self(), step.chunk, step.at), from(step.span),
                               step.span.bytes);
}

void SlotRun::ring(const Step& step) {
  s_.group.memory.store_fence();  // the chunk first, then its doorbell
  s_.own.publish_word(s_.layout.doorbell(s_.self(), step.chunk),
                      word_of(s_.number, step.chunk + 1));
  s_.published();
  s_.send_off();
}

void SlotRun::copy(const Step& step) {
  s_.memory_of(step.rank).observe_bulk(to(step.span), chunk(step.rank, step.chunk, step.at),
                                       step.span.bytes);
}

void SlotRun::combine_chunks(const Step& step) {
  for (std::uint32_t i = 0; i < step.operand_count; ++i) {
    const Operand& value = operand(step, i);
    if (value.own) continue;
    s_.memory_of(value.rank).invalidate(chunk(value.rank, value.chunk, value.at), step.span.bytes);
  }
  s_.memory_of_all().load_fence();
  combine(step, [&](std::uint32_t i, std::uint64_t at, std::size_t bytes, std::byte* staging) {
    const Operand& value = operand(step, i);
    if (value.own) return from(value.span) + at;
    s_.memory_of(value.rank)
        .load_bulk(staging, chunk(value.rank, value.chunk, value.at + at), bytes);
    return static_cast<const std::byte*>(staging);
  });
}

/// One look at each wait of `pending_`; those that are over leave it.
Result<void> SlotRun::look_for(StepKind kind) {
  const auto& steps = prepared().schedule.steps;
  const bool bells = kind == StepKind::wait;
  const auto word_at = [&](const Step& step) {
    return s_.at(bells ? s_.layout.doorbell(step.rank, step.chunk)
                       : s_.layout.release(s_.self(), step.rank));
  };
  const auto memory_at = [&](const Step& step) -> const coherence::Memory& {
    return bells ? s_.memory_of(step.rank) : s_.memory_of_all();
  };
  for (const std::size_t i : pending_) memory_at(steps[i]).invalidate(word_at(steps[i]), 8);
  s_.memory_of_all().load_fence();
  std::uint64_t failure = 0;
  std::uint32_t failed = 0;
  std::erase_if(pending_, [&](std::size_t i) {
    const Step& step = steps[i];
    if (memory_at(step).load_word(word_at(step)) >= word_of(s_.number, step.chunk + 1)) {
      if (bells) s_.hear(step.rank, s_.number);
      return true;
    }
    if (bells && failure == 0) {
      failure = s_.memory_of(step.rank).load_word(s_.at(s_.layout.failed(step.rank)));
      failed = step.rank;
    }
    return false;
  });
  if (failure != 0) return unexpected(s_.failure_of(call().name, failed, failure));
  return {};
}

Result<bool> SlotRun::wait_for_run(StepKind kind, Missing& missing) {
  const auto& steps = prepared().schedule.steps;
  if (pending_.empty()) {
    for (std::size_t i = next_; i < steps.size() && steps[i].kind == kind; ++i)
      pending_.push_back(i);
    run_end_ = pending_.back() + 1;
  }
  PENSTOCK_TRY(look_for(kind));
  if (pending_.empty()) {
    next_ = run_end_;
    return true;
  }
  missing.clear();
  for (const std::size_t i : pending_) missing.push_back(steps[i].rank);
  return false;
}

void SlotRun::take(const Step& step) {
  switch (step.kind) {
    case StepKind::publish:
      return publish(step);
    case StepKind::ring:
      return ring(step);
    case StepKind::copy:
      return copy(step);
    case StepKind::move:
      return move(step);
    case StepKind::combine:
      return combine_chunks(step);
    case StepKind::release:
      s_.own.publish_word(OwnWords::Release{step.rank}, word_of(s_.number, step.chunk + 1));
      return s_.published();
    default:
      return;
  }
}

Result<bool> SlotRun::advance(Missing& missing) {
  const auto& steps = prepared().schedule.steps;
  const auto& consumers = prepared().schedule.consumers;
  if (!free_ && !consumers.empty()) {
    Use& last = last_use_[s_.number % halves];
    if (!s_.is_free(last, missing)) return false;
    last.set(s_.number, consumers);
  }
  free_ = true;
  while (next_ < steps.size()) {
    const StepKind kind = steps[next_].kind;
    if (kind == StepKind::wait || kind == StepKind::await_release) {
      s_.send_off();
      if (!PENSTOCK_TRY(wait_for_run(kind, missing))) return false;
    } else {
      take(steps[next_++]);
    }
  }
  s_.finish(false, prepared().all_hear);
  return true;
}

}  // namespace penstock::coll
