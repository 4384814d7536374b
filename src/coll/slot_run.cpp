// The form by slots: steps in the order of their list. A chunk is copied into a slot, then its
// doorbell is rung; a reader that has seen the doorbell drops its copies of the slot and reads.
// The doorbells of a round are looked at together, and its small chunks taken together, for one
// device access each (together.hpp). Source: CCCL, sections 3 and 4; papers/4-collectives.md, 4.6
// (slots that are used again), 4.9.
#include "coll/running.hpp"
#include "coll/together.hpp"

namespace penstock::coll {

namespace {

/// Collectives that no rank is ever ahead of another.
constexpr std::uint64_t max_ahead = 1ull << 32;

}  // namespace

void SlotRun::begin(const Call& call, const Prepared& prepared) {
  Running::begin(call, prepared);
  placement_ = placement_of(prepared.problem.collective, prepared.plan.variant);
  next_ = 0;
  free_ = false;
  pending_.clear();
  if (seen_.empty()) seen_.resize(std::size_t{s_.group.ranks()} * s_.shape.slots);
}

/// The greatest word seen in the doorbell that a wait is for.
std::uint64_t& SlotRun::seen(const Step& wait) {
  return seen_[std::size_t{wait.rank} * s_.shape.slots + wait.chunk % s_.shape.slots];
}

bool SlotRun::is_over(const Step& wait) {
  return seen(wait) >= word_of(s_.number, wait.chunk + 1);
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

/// The copies from `next_` on that are taken together, and what stands between them.
void SlotRun::copy_together() {
  const auto& steps = prepared().schedule.steps;
  const std::size_t end =
      end_of_copies(steps, next_, [this](const Step& step) { return is_over(step); });
  for (std::size_t i = next_; i < end; ++i) {
    const Step& step = steps[i];
    if (step.kind == StepKind::copy)
      s_.memory_of(step.rank).invalidate(chunk(step.rank, step.chunk, step.at), step.span.bytes);
  }
  s_.memory_of_all().load_fence();
  for (; next_ < end; ++next_) {
    const Step& step = steps[next_];
    if (step.kind == StepKind::copy)
      s_.memory_of(step.rank).load_bulk(to(step.span), chunk(step.rank, step.chunk, step.at),
                                        step.span.bytes);
    if (step.kind == StepKind::release) take(step);
  }
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

/// One look at each wait of `looks_`; those that are over leave `pending_`.
Result<void> SlotRun::look_for_doorbells() {
  const auto& steps = prepared().schedule.steps;
  const auto doorbell = [&](const Step& step) {
    return s_.at(s_.layout.doorbell(step.rank, step.chunk));
  };
  for (const std::size_t i : looks_) s_.memory_of(steps[i].rank).invalidate(doorbell(steps[i]), 8);
  s_.memory_of_all().load_fence();
  for (const std::size_t i : looks_) {
    const Step& step = steps[i];
    const std::uint64_t word = s_.memory_of(step.rank).load_word(doorbell(step));
    // What a stranger has written its producer mends while it waits (own_words.hpp).
    if (collective_of(word) > s_.number + max_ahead) continue;
    seen(step) = word;
    if (is_over(step)) s_.hear(step.rank, s_.number);
  }
  std::erase_if(pending_, [&](std::size_t i) { return is_over(steps[i]); });
  for (const std::size_t i : pending_) {
    const std::uint32_t rank = steps[i].rank;
    const std::uint64_t failure = s_.memory_of(rank).load_word(s_.at(s_.layout.failed(rank)));
    if (failure != 0) return unexpected(s_.failure_of(call().name, rank, failure));
  }
  return {};
}

void SlotRun::look_for_releases() {
  const auto& steps = prepared().schedule.steps;
  const auto& memory = s_.memory_of_all();
  const auto release = [&](const Step& step) {
    return s_.at(s_.layout.release(s_.self(), step.rank));
  };
  for (const std::size_t i : pending_) memory.invalidate(release(steps[i]), 8);
  memory.load_fence();
  std::erase_if(pending_, [&](std::size_t i) {
    return memory.load_word(release(steps[i])) >= word_of(s_.number, steps[i].chunk + 1);
  });
}

/// The waits of one kind from `next_` on. A first look is for the doorbells of the whole round; who
/// has to wait then looks for the next ones alone.
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

void SlotRun::take(const Step& step) {
  switch (step.kind) {
    case StepKind::publish:
      return publish(step);
    case StepKind::ring:
      return ring(step);
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
    } else if (kind == StepKind::copy) {
      copy_together();
    } else {
      take(steps[next_++]);
    }
  }
  s_.finish(false, prepared().all_hear);
  return true;
}

}  // namespace penstock::coll
