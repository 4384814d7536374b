// A temperament of the memory that shows invalidations that are missing.
#pragma once

#include "sim/world/explore.hpp"

namespace penstock::sim {

/// Copies stay until they are dropped on purpose, and nothing is dropped before a `settle`.
inline Scenario with_lasting_copies(Scenario scenario) {
  scenario.name += ", lasting copies";
  scenario.moods = false;
  scenario.knobs.evict = scenario.knobs.prefetch = scenario.knobs.drop_early = 0;
  scenario.knobs.keep = 1000;
  return scenario;
}

}  // namespace penstock::sim
