// A switch that computes, as one more lane: it waits for the packets of all ranks, gathers,
// reduces, stores the result into its slot and answers, one chunk after the other; also as leaves
// under a spine. Source: docs/protocols/switch.md.
#pragma once

#include "model/pool_lanes.hpp"
#include "offload/switch_plan.hpp"

namespace penstock::model {

/// Adds the platform's switches that the call needs. `call` then uses them.
void add_switch_lanes(Machine& machine, PoolCall& call, const coll::SwitchPlan& plan,
                      std::uint32_t ranks);

/// The schedule of rank `problem.rank`, with slots of `window` chunks. Data inside packets is not
/// moved separately. Its answers come from the switch, or from its leaf.
coll::Schedule modelled_schedule_of(const PoolResources& resources, const coll::Problem& problem,
                                    const coll::SwitchPlan& plan, std::uint32_t window);

}  // namespace penstock::model
