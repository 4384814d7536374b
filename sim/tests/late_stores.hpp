// A fault model that shows missing fences between stores.
#pragma once

#include "sim/world/explore.hpp"

namespace penstock::sim {

/// Stores that no fence orders often arrive before earlier ones, and long before.
inline Scenario with_late_stores(Scenario scenario) {
  scenario.name += ", late stores";
  scenario.swarm = false;
  scenario.faults.deliver = 10;
  scenario.faults.hold_unordered = true;
  scenario.faults.whole_lines = true;
  return scenario;
}

}  // namespace penstock::sim
