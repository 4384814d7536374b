// Builds the arguments of a launch (fused.hpp) from the rounds of a call (coll/fused_program.hpp).
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "coll/fused_program.hpp"
#include "gpu/fused.hpp"
#include "gpu/moved.hpp"

namespace penstock::gpu {

/// The operation of a launch on a word.
inline WordOp::Kind kind_of(const coll::DirectOp& op) {
  using Kind = coll::DirectOp::Kind;
  if (op.kind == Kind::resume) return WordOp::signal_resume;
  if (op.kind == Kind::free) return WordOp::wait_free;
  return op.kind == Kind::await ? WordOp::wait : WordOp::signal;
}

/// `Places` says is_needed(op), and gives addresses: word(op), and describe(number of a step,
/// moved).
template <class Places>
class FusedArguments {
 public:
  FusedArguments(FusedCall& made, const Places& places) : made_(made), places_(places) {}

  /// False: there are more than a launch takes.
  bool add(const coll::FusedRound& round) {
    const std::uint32_t words = made_.words, moves = made_.moves;
    if (!add_words(round.waits)) return false;
    const std::uint32_t waited = made_.words;
    if (!add_moves(round.moves) || !add_words(round.signals)) return false;
    if (made_.words == words && made_.moves == moves) return true;
    if (made_.rounds == FusedCall::max_rounds) return false;
    made_.round[made_.rounds++] = {.waits = static_cast<std::uint8_t>(waited - words),
                                   .moves = static_cast<std::uint8_t>(made_.moves - moves),
                                   .signals = static_cast<std::uint8_t>(made_.words - waited)};
    return true;
  }

 private:
  bool add_words(const std::vector<coll::DirectOp>& ops) {
    for (const coll::DirectOp& op : ops) {
      if (!places_.is_needed(op)) continue;
      if (made_.words == FusedCall::max_words) return false;
      made_.word[made_.words++] = {places_.word(op), static_cast<std::uint32_t>(op.low),
                                   kind_of(op)};
    }
    return true;
  }

  /// A round that moves nothing leaves its barrier to the next.
  bool add_moves(const std::vector<coll::FusedMove>& moves) {
    bool behind = false;
    for (const coll::FusedMove& move : moves) {
      Moved moved;
      places_.describe(move.step, moved);
      behind = behind || move.behind;
      if (moved.is_nothing()) continue;
      if (!add_move(moved, std::exchange(behind, false))) return false;
    }
    return true;
  }

  bool add_move(const Moved& moved, bool behind) {
    if (moved.bytes > std::numeric_limits<std::uint32_t>::max() ||
        made_.moves == FusedCall::max_moves ||
        made_.operands + moved.operands > FusedCall::max_operands)
      return false;
    made_.move[made_.moves++] = {.to = reinterpret_cast<void*>(moved.to),
                                 .bytes = static_cast<std::uint32_t>(moved.bytes),
                                 .first = made_.operands,
                                 .operands = static_cast<std::uint8_t>(moved.operands),
                                 .combines = moved.combines,
                                 .behind = behind};
    for (std::uint32_t i = 0; i < moved.operands; ++i)
      made_.operand[made_.operands++] = reinterpret_cast<const void*>(moved.from[i]);
    return true;
  }

  FusedCall& made_;
  const Places& places_;
};

}  // namespace penstock::gpu
