// Calls in which all blocks have the same size, for measurements and models.
#pragma once

#include <cstdint>

#include "schedule/node_map.hpp"
#include "schedule/problem.hpp"

namespace penstock::coll {

/// `rank`'s part of a call whose blocks all have `bytes`, in elements of 4 bytes. All ranks know
/// the size.
Problem uniform_problem(Collective collective, std::uint32_t ranks, std::uint32_t rank,
                        std::uint32_t root, std::uint64_t bytes);

/// Each node has `per_node` consecutive ranks.
NodeMap nodes_in_blocks(std::uint32_t ranks, std::uint32_t per_node);

}  // namespace penstock::coll
