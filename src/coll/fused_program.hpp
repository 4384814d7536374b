// A direct program (direct_program.hpp) as one launch of a kernel carries it out: by one block of
// threads, which do at once what needs no order. Both lanes are one, in the order of the list;
// nothing is told earlier, and no wait comes behind what the list tells after it: so whoever goes
// by this order goes on wherever one that goes by the list does. Protocol:
// docs/protocols/collectives.md, "By one launch". Source: gpu.md, "CUDA" (fused kernel).
#pragma once

#include <cstdint>
#include <vector>

#include "coll/direct_program.hpp"

namespace penstock::coll {

struct FusedMove {
  std::uint32_t step = 0;
  bool behind = false;  ///< all of the moves before it must be done, in this round too
};

/// All waits, then all moves, then all that is told; each list in any order but for
/// FusedMove::behind, and each behind the one before it and the round before.
struct FusedRound {
  std::vector<DirectOp> waits;
  std::vector<FusedMove> moves;
  std::vector<DirectOp> tells;
};

/// Whether the elements of each combine may be reduced in any order, as a GPU does it: not where a
/// result in place lies over a later part of the rank's own operand.
bool can_combine_at_once(const Schedule& schedule, bool in_place);

std::vector<FusedRound> fused_program_of(const std::vector<DirectOp>& program,
                                         const Schedule& schedule);

}  // namespace penstock::coll
