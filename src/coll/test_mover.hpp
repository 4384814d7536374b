// A Mover for tests: a "GPU" that copies when it is polled, each lane at its own pace, through this
// host's caches and without a flush of its own.
#pragma once

#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "coll/communicator.hpp"
#include "coll/mover.hpp"
#include "coll/prepared.hpp"
#include "schedule/test_calls.hpp"

namespace penstock::coll {

class TestMover : public Mover {
 public:
  /// For the communicator's next call.
  TestMover(const Communicator& comm, const Prepared& prepared, const Arithmetic* arithmetic,
            std::byte* input, std::byte* output, std::uint64_t seed)
      : comm_(comm),
        prepared_(prepared),
        arithmetic_(arithmetic),
        number_(prepared.switch_packets != 0 ? comm.packets() : comm.begun() + 1),
        input_(input),
        output_(output),
        scratch_(prepared.schedule.scratch_bytes),
        random_(seed) {
    for (const Event& event : prepared.program.events) events_[index(event.lane)].push_back(event);
  }

  void allow(Lane lane, std::size_t segment) override { allowed_[index(lane)] = segment + 1; }
  bool is_done(Lane lane, std::size_t segment) override {
    for (std::uint64_t i = random_() % 4; i > 0; --i)
      (void)advance(random_() % 2 == 0 ? Lane::write : Lane::read);
    return is_marked(lane, segment);
  }
  Result<void> fetch(std::byte* to, const Span& from) override {
    std::memcpy(to, at(from), from.bytes);
    return {};
  }
  Result<void> store(const Span& to, const std::byte* from) override {
    std::memcpy(at(to), from, to.bytes);
    return {};
  }

 protected:
  static std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }
  /// Whether an event of the lane that nothing else holds up is done by now.
  virtual bool is_time(Lane, const Event&) { return true; }
  bool is_marked(Lane lane, std::size_t segment) const { return marked_[index(lane)] > segment; }
  /// Does the lane's next event. False: not yet.
  bool advance(Lane lane) {
    auto& next = next_[index(lane)];
    if (next == events_[index(lane)].size()) return false;
    const Event& event = events_[index(lane)][next];
    if (event.kind == Event::Kind::gate && allowed_[index(lane)] <= event.number) return false;
    if (event.kind == Event::Kind::move && !can_move(event.number)) return false;
    if (!is_time(lane, event)) return false;
    if (event.kind == Event::Kind::mark) marked_[index(lane)] = event.number + 1;
    if (event.kind == Event::Kind::move) move(event.number);
    ++next;
    return true;
  }

 private:
  /// False if a step of the other lane must come first.
  bool can_move(std::uint32_t number) const {
    const auto& steps = prepared_.schedule.steps;
    return steps[number].after < 0 ||
           is_moved(steps, static_cast<std::uint32_t>(steps[number].after));
  }
  void move(std::uint32_t number) {
    const Step& step = prepared_.schedule.steps[number];
    std::byte* const here = at(step.span);
    if (step.kind == StepKind::publish)
      std::memcpy(chunk(comm_.self(), step.chunk) + step.at, here, step.span.bytes);
    if (step.kind == StepKind::copy)
      std::memcpy(here, chunk(step.rank, step.chunk) + step.at, step.span.bytes);
    if (step.kind == StepKind::move) std::memmove(here, at(step.from), step.span.bytes);
    if (step.kind == StepKind::combine) combine(step);
    moved_.insert(number);
  }
  /// Whether step `number`, or the moves before it in its lane, are done.
  bool is_moved(const std::vector<Step>& steps, std::uint32_t number) const {
    for (std::uint32_t i = 0; i <= number; ++i) {
      if (steps[i].lane != steps[number].lane || moved_.count(i) != 0) continue;
      const StepKind kind = steps[i].kind;
      if (kind == StepKind::publish || kind == StepKind::copy || kind == StepKind::move ||
          kind == StepKind::combine)
        return false;
    }
    return true;
  }
  void combine(const Step& step) {
    alignas(64) std::array<std::byte, Reduction::accumulator_bytes> sum;
    std::byte* const result = at(step.span);
    for (std::uint64_t begin = 0; begin < step.span.bytes; begin += arithmetic_->piece_bytes()) {
      const std::size_t bytes =
          std::min<std::uint64_t>(arithmetic_->piece_bytes(), step.span.bytes - begin);
      for (std::uint32_t i = 0; i < step.operand_count; ++i) {
        const Operand& value = prepared_.schedule.operands[step.first_operand + i];
        const std::byte* const from =
            (value.own ? at(value.span) : chunk(value.rank, value.chunk) + value.at) + begin;
        if (i == 0) arithmetic_->first(sum.data(), from, bytes);
        if (i != 0) arithmetic_->add(sum.data(), from, bytes);
      }
      arithmetic_->finish(result + begin, sum.data(), bytes);
    }
  }
  std::byte* at(const Span& span) {
    std::byte* begin = input_;
    if (span.buffer == Buffer::output) begin = output_;
    if (span.buffer == Buffer::scratch) begin = scratch_.data();
    return begin + span.offset;
  }
  std::byte* chunk(std::uint32_t rank, std::uint64_t number) const {
    return comm_.chunk_of(prepared_, number_, rank, number);
  }

  const Communicator& comm_;
  const Prepared& prepared_;
  const Arithmetic* const arithmetic_;
  const std::uint64_t number_;
  std::byte *input_, *output_;
  std::vector<std::byte> scratch_;
  std::mt19937_64 random_;
  std::array<std::vector<Event>, lane_count> events_;
  std::array<std::size_t, lane_count> next_{}, allowed_{}, marked_{};
  std::set<std::uint32_t> moved_;
};

/// Runs a prepared call whose data a TestMover moves.
inline Result<void> run_moved(Communicator& comm, Call call, const Prepared& prepared,
                              std::byte* input, std::byte* output, std::uint64_t seed) {
  TestMover mover(comm, prepared, call.arithmetic, input, output, seed);
  call.mover = &mover;
  return comm.run(call, prepared);
}

/// `plan` must not be eager.
inline Result<void> run_moved(Communicator& comm, const Call& call, std::byte* input,
                              std::byte* output, std::uint64_t seed) {
  const auto prepared = comm.prepare_moved(call);
  if (!prepared) return unexpected(prepared.error());
  return run_moved(comm, call, **prepared, input, output, seed);
}

}  // namespace penstock::coll
