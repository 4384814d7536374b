#include "coll/fused_program.hpp"

#include <algorithm>
#include <utility>

#include "coherence/site.hpp"

namespace penstock::coll {

namespace {

using coherence::Site;
using coherence::Weakening;
using Kind = DirectOp::Kind;

/// Memory of this rank that a step loads or stores. Input and output may be the same.
struct Touch {
  Span span;
  bool stores = false;
  bool meets(const Touch& other) const {
    const bool scratch = span.buffer == Buffer::scratch;
    return (stores || other.stores) && scratch == (other.span.buffer == Buffer::scratch) &&
           span.offset < other.span.offset + other.span.bytes &&
           other.span.offset < span.offset + span.bytes;
  }
};

/// The list of rounds. A proof may leave out one wait.
class Rounds {
 public:
  FusedRound& last() { return list.back(); }
  void begin_round(Site site = Site::here()) {
    if (!coherence::weakened(Weakening::wait, site)) list.emplace_back();
  }
  void come_behind(FusedMove& move, Site site = Site::here()) const {
    move.behind = !coherence::weakened(Weakening::wait, site);
  }

  std::vector<FusedRound> list = std::vector<FusedRound>(1);
};

class RoundCutter {
 public:
  explicit RoundCutter(const Schedule& schedule) : schedule_(schedule) {}

  void add(const DirectOp& op) {
    switch (op.kind) {
      case Kind::join:
        return;  // one thread runs both lanes
      case Kind::free:
      case Kind::await:
        // This wait may come before earlier moves. That delays them, and the words published after
        // them.
        if (!rounds_.last().signals.empty()) rounds_.begin_round();
        return rounds_.last().waits.push_back(op);
      case Kind::move:
        if (!rounds_.last().signals.empty()) rounds_.begin_round();
        return add_move(op.step);
      default:
        return add_signal(op);
    }
  }
  std::vector<FusedRound> finish() { return std::move(rounds_.list); }

 private:
  /// Words of a round are published in any order. But the word for a finished call comes after its
  /// doorbells: a reader that has seen it no longer checks whether its writer is alive.
  void add_signal(const DirectOp& op) {
    const auto& signals = rounds_.last().signals;
    if (std::any_of(signals.begin(), signals.end(), [&](const DirectOp& other) {
          return other.at == op.at || (op.kind == Kind::finish && other.kind == Kind::signal);
        }))
      rounds_.begin_round();
    rounds_.last().signals.push_back(op);
  }

  void add_move(std::uint32_t number) {
    FusedMove move{.step = number};
    std::vector<Touch> touches = touches_of(schedule_.steps[number]);
    if (rounds_.last().moves.empty()) touched_.clear();
    const bool meets = std::any_of(touches.begin(), touches.end(), [&](const Touch& one) {
      return std::any_of(touched_.begin(), touched_.end(),
                         [&](const Touch& other) { return one.meets(other); });
    });
    if (meets) {
      rounds_.come_behind(move);
      touched_.clear();
    }
    touched_.insert(touched_.end(), touches.begin(), touches.end());
    rounds_.last().moves.push_back(move);
  }

  std::vector<Touch> touches_of(const Step& step) const {
    if (step.kind == StepKind::publish) return {{step.span, false}};
    std::vector<Touch> touches{{step.span, true}};
    if (step.kind == StepKind::move) touches.push_back({step.from, false});
    for (std::uint32_t i = 0; i < step.operand_count; ++i) {
      const Operand& operand = schedule_.operands[step.first_operand + i];
      if (operand.own) touches.push_back({operand.span, false});
    }
    return touches;
  }

  const Schedule& schedule_;
  Rounds rounds_;
  std::vector<Touch> touched_;  ///< memory touched since the last move with FusedMove::behind
};

}  // namespace

bool can_combine_at_once(const Schedule& schedule, bool in_place) {
  for (const Step& step : schedule.steps) {
    for (std::uint32_t i = 0; i < step.operand_count; ++i) {
      const Operand& operand = schedule.operands[step.first_operand + i];
      if (!operand.own || operand.span.offset == step.span.offset) continue;
      if (operand.span.buffer != step.span.buffer && !in_place) continue;
      const Touch own{{operand.span.buffer, operand.span.offset, step.span.bytes}, false};
      if (own.meets({step.span, true})) return false;
    }
  }
  return true;
}

std::vector<FusedRound> fused_program_of(const std::vector<DirectOp>& program,
                                         const Schedule& schedule) {
  RoundCutter cutter(schedule);
  for (const DirectOp& op : program) cutter.add(op);
  return cutter.finish();
}

std::vector<FusedRound> fused_program_of(const LaneProgram& program, const Schedule& schedule) {
  RoundCutter cutter(schedule);
  const auto await_gate = [&](Lane lane, std::uint64_t segments) {
    cutter.add({.kind = Kind::await, .lane = lane, .low = segments, .at = gate_word(lane)});
  };
  for (const Event& event : program.events) {
    const std::uint64_t segments = event.number + std::uint64_t{1};
    if (event.kind == Event::Kind::gate) await_gate(event.lane, segments);
    if (event.kind == Event::Kind::move)
      cutter.add({.kind = Kind::move, .lane = event.lane, .step = event.number});
    if (event.kind == Event::Kind::mark)
      cutter.add(
          {.kind = Kind::signal, .lane = event.lane, .low = segments, .at = mark_word(event.lane)});
  }
  if (!program.ends_quietly) await_gate(Lane::read, program.of(Lane::read).size() + 1);
  return cutter.finish();
}

}  // namespace penstock::coll
