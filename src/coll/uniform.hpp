// Calls in which every block has the same bytes: what is measured and modelled.
#pragma once

#include <cstdint>

#include "coll/node_map.hpp"
#include "coll/problem.hpp"

namespace penstock::coll {

/// Whether a rank has a block for each other rank, or gets one of each.
bool spreads(Collective collective);
bool gathers(Collective collective);

/// `rank`'s part of a call in which each block has `bytes`, elements of 4 bytes; all ranks know the
/// size.
Problem uniform_problem(Collective collective, std::uint32_t ranks, std::uint32_t rank,
                        std::uint32_t root, std::uint64_t bytes);

/// `per_node` ranks one after the other are on a node.
NodeMap nodes_in_blocks(std::uint32_t ranks, std::uint32_t per_node);

}  // namespace penstock::coll
