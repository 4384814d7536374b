// A pool whose communicators go through the switch that serves it.
#pragma once

#include <cstdlib>

#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {

class SwitchPool : public SimulatedPool {
 public:
  SwitchPool() : SimulatedPool({.max_processes = 24, .max_nodes = 10}) {
    ::setenv("PENSTOCK_COLL_SWITCH", "always", 1);
    format_arena();
  }
  ~SwitchPool() { ::unsetenv("PENSTOCK_COLL_SWITCH"); }
};

}  // namespace penstock::sim
