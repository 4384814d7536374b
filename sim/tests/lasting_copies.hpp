// A fault model that shows missing invalidations.
#pragma once

#include "sim/world/explore.hpp"

namespace penstock::sim {

/// Copies stay until they are dropped explicitly, and none is dropped before a `load_fence`.
inline Scenario with_lasting_copies(Scenario scenario) {
  scenario.name += ", lasting copies";
  scenario.swarm = false;
  scenario.faults.evict = scenario.faults.prefetch = scenario.faults.drop_early = 0;
  scenario.faults.keep = 1000;
  return scenario;
}

}  // namespace penstock::sim
