// A call as one kernel launch runs it: by one block of threads, which does steps in parallel if
// they need no order. It takes a direct program (direct_program.hpp), or the events of a lane
// program (lane_program.hpp). Both lanes become one, in the order of the list. No word is published
// earlier than in the list, and no wait comes after a word that follows it there. So this order
// makes progress wherever the list's order does. Protocol: docs/protocols/one-launch.md.
#pragma once

#include <cstdint>
#include <vector>

#include "coll/direct_program.hpp"
#include "coll/lane_program.hpp"

namespace penstock::coll {

struct FusedMove {
  std::uint32_t step = 0;
  bool behind = false;  ///< all moves before it must be done, including those of this round
};

/// First all waits, then all moves, then all words to publish. Each list runs in any order except
/// for FusedMove::behind, and after the list and the round before it.
struct FusedRound {
  std::vector<DirectOp> waits;
  std::vector<FusedMove> moves;
  std::vector<DirectOp> signals;
};

/// Whether each combine may reduce its elements in any order, as a GPU does. Not if a result in
/// place overwrites a later part of the rank's own operand.
bool can_combine_at_once(const Schedule& schedule, bool in_place);

std::vector<FusedRound> fused_program_of(const std::vector<DirectOp>& program,
                                         const Schedule& schedule);
/// For a call that a proxy leads. DirectOp::await waits for a gate, and DirectOp::signal sets a
/// mark. DirectOp::at is the index of the word, and DirectOp::low counts the call's segments.
/// Unless the program ends quietly, the last op waits for a gate behind the read lane's last
/// segment.
std::vector<FusedRound> fused_program_of(const LaneProgram& program, const Schedule& schedule);

}  // namespace penstock::coll
