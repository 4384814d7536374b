// How the ranks of a job are dealt to emulated nodes (PENSTOCK_NODES).
#pragma once

#include <cstdint>

namespace penstock::pool {

/// The node of `rank` when one machine emulates `nodes` hosts, distributed as MPICH distributes
/// ranks to cliques: in blocks, the first ones longer; or round robin.
std::uint32_t emulated_node_of(std::uint32_t rank, std::uint32_t size, std::uint32_t nodes,
                               bool by_block);
/// The number of `rank` among the ranks of its emulated node.
std::uint32_t local_rank_of(std::uint32_t rank, std::uint32_t size, std::uint32_t nodes,
                            bool by_block);

}  // namespace penstock::pool
