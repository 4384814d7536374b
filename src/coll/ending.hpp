// The memory of a communicator whose ranks leave one after the other, and wait for nobody: it
// always belongs to a rank that has not left, so it goes with the last one. Protocol:
// docs/protocols/collectives.md, "The end".
#pragma once

#include <cstdint>
#include <vector>

#include "arena/arena.hpp"
#include "coll/communicator.hpp"

namespace penstock::coll {

/// This rank makes no more calls: leave(), then `areas` (Agreement::areas()) and late slots are
/// passed on to a living rank that has not left, or are destroyed where there is none. `tokens`: of
/// the ranks, by rank. Reads the lines of all ranks, and takes the pool's lock if the areas are
/// this rank's. All ranks end so.
void end(arena::Arena& arena, Communicator& communicator, const std::vector<std::uint64_t>& tokens,
         const std::vector<arena::Object>& areas);

}  // namespace penstock::coll
