// One call by each of the engine's plans, compared with the same call by messages over networks.
#pragma once

#include <string>
#include <vector>

#include "model/collectives.hpp"
#include "model/network.hpp"

namespace penstock::model {

struct PlanTime {
  std::string how;
  coll::Plan plan;
  double seconds = 0;
  Utilization busiest;
};

struct NetworkTime {
  const Network* network = nullptr;
  double seconds = 0;
  /// Fraction of the line rate below which the network is slower than the pool's fastest plan.
  /// Above 1: it is slower even at its line rate. 0: it is faster at any rate, by latency alone.
  double tie = 0;
};

struct Comparison {
  PoolCase call;
  std::vector<PlanTime> plans;  ///< the engine's choice first
  std::size_t fastest = 0;      ///< index in plans
  std::vector<NetworkTime> networks;
  double gain() const { return plans[0].seconds / plans[fastest].seconds; }
};

/// Errors: invalid_argument if no plan is possible for the call; those of run_on_pool().
Result<Comparison> compare(const PlatformSet& set, const PoolCase& call);

}  // namespace penstock::model
