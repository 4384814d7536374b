// The same collectives by messages over a network beside the pool: rings, chains and pairs, as
// NCCL and MPIs have them, on hosts with one port each. Source: Patarasuk and Yuan, Bandwidth
// optimal all-reduce algorithms, 2009 (rings); CCCL, 4.2 (its baseline).
#pragma once

#include "coll/problem.hpp"
#include "model/platform.hpp"

namespace penstock::model {

/// Seconds of a call of `ranks`, `per_node` of which share a host one after the other. `block`:
/// bytes of a block, as coll::uniform_problem() has it. Reduction itself takes no time here.
Result<double> network_seconds(const Network& network, coll::Collective collective,
                               std::uint32_t ranks, std::uint32_t per_node, std::uint64_t block);

}  // namespace penstock::model
