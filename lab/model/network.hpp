// The same collectives by messages over a network beside the pool: rings, chains and pairs, as NCCL
// and MPIs use them, on hosts with one port each. Source: Patarasuk and Yuan, Bandwidth optimal
// all-reduce algorithms, 2009 (rings); CCCL, 4.2 (its baseline).
#pragma once

#include "model/platform.hpp"
#include "schedule/problem.hpp"

namespace penstock::model {

/// Whether there is a model of it by messages: the condition of network_seconds().
bool has_network(coll::Collective collective);

/// Seconds of a call on `ranks` ranks; `per_node` consecutive ones share a host. `block`: bytes of
/// a block, as in coll::uniform_problem(). Reduction itself takes no time here.
Result<double> network_seconds(const Network& network, coll::Collective collective,
                               std::uint32_t ranks, std::uint32_t per_node, std::uint64_t block);

}  // namespace penstock::model
