// A switch that computes, as one more lane: it waits for the packets of all ranks, gathers,
// reduces, puts the result into its slot and answers, a chunk after the other; as leaves under a
// spine too. Source: docs/protocols/switch.md.
#pragma once

#include "coll/switch_plan.hpp"
#include "model/pool_lanes.hpp"

namespace penstock::model {

/// Of the platform's switches, all that the call needs. `call` goes through them.
void add_switch_lanes(Machine& machine, PoolCall& call, const coll::SwitchPlan& plan,
                      std::uint32_t ranks);

/// What rank `problem.rank` does, on slots of `window` chunks: nothing that lies in packets is
/// moved by itself. Its answers are those of the switch or of its leaf.
coll::Schedule modelled_schedule_of(const PoolResources& resources, const coll::Problem& problem,
                                    const coll::SwitchPlan& plan, std::uint32_t window);

}  // namespace penstock::model
