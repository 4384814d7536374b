// The eager form. A rank publishes its payload in tagged lines of its own block, and polls the
// others' lines until all have arrived. Blocks are used in turn. A block is used again when every
// reader of its last payload has finished that collective. Tagged lines: docs/memory-model.md,
// rule 6.
#include "coll/eager_run.hpp"

namespace penstock::coll {

namespace {

constexpr std::uint64_t payload_of_line = coherence::tagged_bytes;

constexpr std::uint64_t lines_of(std::uint64_t payload) {
  return (payload + payload_of_line - 1) / payload_of_line;
}

}  // namespace

void EagerRun::begin(const Call& call, const Prepared& prepared) {
  Executor::begin(call, prepared);
  stage_ = Stage::begun;
  if (last_use_.empty()) last_use_.resize(s_.shape.eager_blocks);
  if (staging_.size() < prepared.staged_bytes) staging_.resize(prepared.staged_bytes);
  pending_.clear();
  for (std::uint32_t i = 0; i < prepared.reads.size(); ++i) pending_.push_back({i});
}

void EagerRun::publish(const Step& step) {
  const std::uint64_t line = step.at / payload_of_line;
  s_.group.memory.publish_tagged(s_.at(s_.layout.eager(s_.self(), s_.number) + line * line_bytes),
                                 from(step.span), step.span.bytes, s_.opening() + line);
}

void EagerRun::publish_all() {
  for (std::size_t i = 0; i < prepared().first_reading; ++i) {
    const Step& step = prepared().schedule.steps[i];
    if (step.kind == StepKind::move) move(step);
    if (step.kind == StepKind::publish) publish(step);
  }
  if (prepared().publishes_nothing) {
    const std::uint64_t bare = s_.number;
    s_.group.memory.publish_tagged(s_.at(s_.layout.eager(s_.self(), s_.number)), &bare, bare_bytes,
                                   s_.opening());
  }
  s_.published();
  s_.send_off();
}

std::byte* EagerRun::destination(const EagerRead& read) {
  if (read.copy < 0) return staging_.data() + read.staged_at;
  return to(prepared().schedule.steps[static_cast<std::size_t>(read.copy)].span);
}

/// Returns all missing lines or, after a poll that found nothing, only the last one. So a late rank
/// costs few invalidations, and the arrival of its last line shows that the rest is there.
EagerRun::Window EagerRun::window_of(const Pending& pending) const {
  const EagerRead& read = prepared().reads[pending.read];
  std::uint64_t begin = pending.arrived;
  if (pending.in_vain) begin += (read.bytes - begin - 1) / payload_of_line * payload_of_line;
  const std::uint64_t line = (read.at + begin) / payload_of_line;
  return {.lines = s_.at(s_.layout.eager(read.rank, s_.number) + line * line_bytes),
          .first_line = line,
          .begin = begin,
          .bytes = read.bytes - begin};
}

/// Returns true if data arrived.
bool EagerRun::look(Pending& pending) {
  const EagerRead& read = prepared().reads[pending.read];
  const Window window = window_of(pending);
  const std::size_t arrived =
      s_.memory_of(read.rank).load_tagged(destination(read) + window.begin, window.lines,
                                          window.bytes, s_.opening() + window.first_line);
  if (window.begin == pending.arrived) pending.arrived += arrived;
  pending.in_vain = arrived == 0;
  return arrived != 0;
}

/// Reads everything that is there, because the publisher may be gone at the next poll. Returns true
/// when all data has arrived.
bool EagerRun::take_arrived() {
  while (look_at_all()) {
  }
  return pending_.empty();
}

/// Polls each awaited payload once. Returns true if data arrived and more is awaited.
bool EagerRun::look_at_all() {
  for (const Pending& pending : pending_) {
    const Window window = window_of(pending);
    s_.memory_of(prepared().reads[pending.read].rank)
        .invalidate(window.lines, lines_of(window.bytes) * line_bytes);
  }
  s_.memory_of_all().load_fence();
  bool some = false;
  std::erase_if(pending_, [&](Pending& pending) {
    some = look(pending) || some;
    const EagerRead& read = prepared().reads[pending.read];
    if (pending.arrived < read.bytes) return false;
    s_.note_entered(read.rank, s_.number);
    return true;
  });
  return some && !pending_.empty();
}

void EagerRun::finish_steps() {
  const auto& steps = prepared().schedule.steps;
  for (std::size_t i = prepared().first_reading; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.kind == StepKind::move) move(step);
    if (step.kind != StepKind::combine) continue;
    combine(step, [&](std::uint32_t k, std::uint64_t at, std::size_t, std::byte*) {
      const Operand& value = operand(step, k);
      if (value.own) return from(value.span) + at;
      return static_cast<const std::byte*>(staging_.data() +
                                           prepared().staged_operand[step.first_operand + k] + at);
    });
  }
}

Result<bool> EagerRun::advance(Missing& missing) {
  if (stage_ == Stage::begun) {
    Use& last = last_use_[s_.number % last_use_.size()];
    if (!s_.is_free(last, missing)) return false;
    publish_all();
    done(0, prepared().first_reading);
    last.set(s_.number, prepared().schedule.consumers);
    stage_ = Stage::published;
  }
  if (!pending_.empty() && !take_arrived()) {
    missing.clear();
    for (const Pending& pending : pending_) missing.push_back(prepared().reads[pending.read].rank);
    return false;
  }
  finish_steps();
  done(prepared().first_reading, prepared().schedule.steps.size());
  s_.finish(true, prepared().read_by_all);
  return true;
}

}  // namespace penstock::coll
