// A temperament of the memory that shows fences between stores that are missing.
#pragma once

#include "sim/world/explore.hpp"

namespace penstock::sim {

/// What no fence has put behind another store often comes before it, and long before.
inline Scenario with_late_stores(Scenario scenario) {
  scenario.name += ", late stores";
  scenario.swarm = false;
  scenario.faults.deliver = 10;
  scenario.faults.hold_unordered = true;
  scenario.faults.whole_lines = true;
  return scenario;
}

}  // namespace penstock::sim
