// Ownership of a communicator's memory when its ranks leave one after the other and wait for none.
// The owner is always a rank that has not left, so the last rank frees the memory. Protocol:
// docs/protocols/collectives.md, "The end".
#pragma once

#include <cstdint>
#include <vector>

#include "arena/arena.hpp"
#include "coll/communicator.hpp"

namespace penstock::coll {

/// Ends this rank's calls: leave(), then passes `areas` (Agreement::areas()) and late slots to a
/// living rank that has not left, or destroys them if there is none. `tokens`: by rank. Reads the
/// lines of all ranks, and takes the pool's lock if this rank owns the areas. All ranks must end in
/// this way.
void end(arena::Arena& arena, Communicator& communicator, const std::vector<std::uint64_t>& tokens,
         const std::vector<arena::Object>& areas);

}  // namespace penstock::coll
