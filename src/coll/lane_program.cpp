#include "coll/lane_program.hpp"

#include <algorithm>

namespace penstock::coll {

namespace {

std::uint64_t bytes_in_pool(const Schedule& schedule, const Step& step) {
  if (step.kind == StepKind::move) return 0;
  if (step.kind != StepKind::combine) return step.span.bytes;
  return operands_in_pool(schedule, step) * step.span.bytes;
}

class Cutter {
 public:
  explicit Cutter(const Schedule& schedule) : schedule_(schedule) {}

  void add(std::uint32_t step) {
    const StepKind kind = schedule_.steps[step].kind;
    const Lane lane = schedule_.steps[step].lane;
    // No word is published later because of what the other lane moves.
    const Lane other = lane == Lane::write ? Lane::read : Lane::write;
    if (!last(other).signals.empty()) next(other);
    if (kind == StepKind::wait || kind == StepKind::await_release) return add_wait(lane, step);
    if (kind == StepKind::ring || kind == StepKind::release) return add_signal(lane, step);
    add_move(lane, step);
  }
  LaneProgram finish() {
    for (const Lane lane : {Lane::write, Lane::read}) {
      Segment& segment = last(lane);
      if (segments(lane).size() > 1 && segment.is_empty()) {
        segments(lane).pop_back();  // published in the meantime
        continue;
      }
      segment.mark = true;
      close(lane);
    }
    program_.ends_quietly = ends_quietly();
    return std::move(program_);
  }

 private:
  std::vector<Segment>& segments(Lane lane) {
    return program_.lanes[static_cast<std::size_t>(lane)];
  }
  Segment& last(Lane lane) {
    if (segments(lane).empty()) segments(lane).emplace_back();
    return segments(lane).back();
  }
  void push(Event::Kind kind, Lane lane, std::size_t number) {
    program_.events.push_back({kind, lane, static_cast<std::uint32_t>(number)});
  }

  void add_wait(Lane lane, std::uint32_t step) {
    if (!last(lane).moves.empty() || !last(lane).signals.empty()) next(lane);
    last(lane).waits.push_back(step);
  }
  void add_move(Lane lane, std::uint32_t step) {
    if (!last(lane).signals.empty()) next(lane);
    open(lane);
    last(lane).moves.push_back(step);
    const std::uint64_t bytes = bytes_in_pool(schedule_, schedule_.steps[step]);
    last(lane).bytes += bytes;
    program_.bytes += bytes;
    push(Event::Kind::move, lane, step);
  }
  void add_signal(Lane lane, std::uint32_t step) {
    open(lane);
    last(lane).signals.push_back(step);
  }
  /// Adds the gate once, after all waits of the segment.
  void open(Lane lane) {
    Segment& segment = last(lane);
    if (segment.gate || !segment.moves.empty() || !segment.signals.empty()) return;
    const bool first = segments(lane).size() == 1;
    segment.gate = first || !segment.waits.empty();
    if (segment.gate) push(Event::Kind::gate, lane, segments(lane).size() - 1);
  }
  void close(Lane lane) {
    open(lane);
    Segment& segment = last(lane);
    if (!segment.signals.empty()) segment.mark = true;
    if (segment.mark) push(Event::Kind::mark, lane, segments(lane).size() - 1);
  }
  void next(Lane lane) {
    close(lane);
    segments(lane).emplace_back();
  }
  bool ends_quietly() {
    const std::size_t last = segments(Lane::read).size() - 1;
    if (!segments(Lane::read)[last].signals.empty()) return false;
    const auto is_last_gate = [&](const Event& event) {
      return event.kind == Event::Kind::gate && event.lane == Lane::read && event.number == last;
    };
    const auto is_quiet = [](const Event& event) {
      return event.lane == Lane::read || event.kind == Event::Kind::move;
    };
    const auto end = program_.events.end();
    const auto gate = std::find_if(program_.events.begin(), end, is_last_gate);
    return gate != end && std::all_of(gate + 1, end, is_quiet);
  }

  const Schedule& schedule_;
  LaneProgram program_;
};

}  // namespace

LaneProgram lane_program_of(const Schedule& schedule) {
  Cutter cutter(schedule);
  for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) cutter.add(i);
  return cutter.finish();
}

}  // namespace penstock::coll
