// Doorbells and releases. A doorbell is rung when its chunk has left for the device; a reader that
// has seen it invalidates its copies of the slot before it reads. A slot is used again after all
// readers have released it. Source: CCCL, section 4.
#include "coll/slot_signals.hpp"

namespace penstock::coll {

void SlotSignals::begin(const Call& call, const Prepared& prepared) {
  Executor::begin(call, prepared);
  devices_ = prepared.plan.devices;
  next_ = 0;
  free_ = false;
  pending_.clear();
  if (seen_.empty()) seen_.resize(std::size_t{s_.group.ranks()} * s_.shape.slots);
}

/// The last word read from the doorbell of a wait.
std::uint64_t& SlotSignals::seen(const Step& wait) {
  return seen_[std::size_t{wait.rank} * s_.shape.slots + wait.chunk % s_.shape.slots];
}

bool SlotSignals::is_over(const Step& wait) {
  return s_.has_rung(seen(wait), wait.chunk);
}

std::byte* SlotSignals::chunk(std::uint32_t producer, std::uint64_t number,
                              std::uint64_t at) const {
  return s_.slots.at(devices_, producer, s_.number, number) + at;
}

void SlotSignals::ring(const Step& step, bool stays) {
  s_.group.memory.store_fence();  // the chunk first, then its doorbell
  s_.own.publish_word(s_.layout.doorbell(s_.self(), s_.number, step.chunk),
                      s_.doorbell_word(step.chunk) | (stays ? zero_copy_bit : 0));
  s_.published();
  s_.send_off();
}

void SlotSignals::release(const Step& step) {
  s_.own.publish_word(OwnWords::Release{step.rank}, chunk_word(s_.number, step.chunk + 1));
  s_.published();
}

bool SlotSignals::is_lent(std::uint32_t producer, std::uint64_t number) {
  std::uint64_t& seen = seen_[std::size_t{producer} * s_.shape.slots + number % s_.shape.slots];
  // With Plan::turns this rank has waited for a later chunk, whose doorbell is in the same line.
  if (!s_.has_rung(seen, number))
    seen = s_.memory_of(producer).load_word(s_.at(s_.layout.doorbell(producer, s_.number, number)));
  return seen == (s_.doorbell_word(number) | zero_copy_bit);
}

/// Polls each wait of `looks_` once; waits that are over leave `pending_`.
Result<void> SlotSignals::look_for_doorbells() {
  const auto& steps = prepared().schedule.steps;
  const auto doorbell = [&](const Step& step) {
    return s_.at(s_.layout.doorbell(step.rank, s_.number, step.chunk));
  };
  for (const std::size_t i : looks_) s_.memory_of(steps[i].rank).invalidate(doorbell(steps[i]), 8);
  s_.memory_of_all().load_fence();
  for (const std::size_t i : looks_) {
    const Step& step = steps[i];
    seen(step) = s_.memory_of(step.rank).load_word(doorbell(step));
    if (is_over(step)) s_.note_entered(step.rank, s_.number);
  }
  std::erase_if(pending_, [&](std::size_t i) { return is_over(steps[i]); });
  for (std::size_t at = 0; at < pending_.size(); ++at) {
    const Step& step = steps[pending_[at]];
    const std::byte* const failed = s_.at(s_.layout.failed(step.rank, s_.number));
    const std::uint64_t failure = s_.memory_of(step.rank).load_word(failed);
    if (failure == 0) continue;
    if (!has_rung_before(step)) return unexpected(s_.failure_of(call().name, step.rank, failure));
    s_.note_entered(step.rank, s_.number);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(at--));
  }
  return {};
}

/// For a rank that has failed: whether it had rung before, since the last look at its doorbell. A
/// device access.
bool SlotSignals::has_rung_before(const Step& step) {
  const auto& memory = s_.memory_of(step.rank);
  const std::byte* const doorbell = s_.at(s_.layout.doorbell(step.rank, s_.number, step.chunk));
  memory.invalidate(doorbell, 8);
  memory.load_fence();
  seen(step) = memory.load_word(doorbell);
  return is_over(step);
}

void SlotSignals::look_for_releases() {
  const auto& steps = prepared().schedule.steps;
  const auto& memory = s_.memory_of_all();
  const auto release = [&](const Step& step) {
    return s_.at(s_.layout.release(s_.self(), step.rank));
  };
  for (const std::size_t i : pending_) memory.invalidate(release(steps[i]), 8);
  memory.load_fence();
  std::erase_if(pending_, [&](std::size_t i) {
    return memory.load_word(release(steps[i])) >= chunk_word(s_.number, steps[i].chunk + 1);
  });
}

bool SlotSignals::is_half_free(Missing& missing) {
  const auto& consumers = prepared().schedule.consumers;
  if (!free_ && !consumers.empty()) {
    Use& last = readers_[s_.number % halves];
    if (s_.last_direct() > last.collective) last.set(s_.last_direct(), s_.group.others());
    if (!s_.is_free(last, missing)) return false;
    last.set(s_.number, consumers);
  }
  free_ = true;
  return true;
}

}  // namespace penstock::coll
