// A call by every plan that the engine has for it, beside the same call by messages over networks.
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
  /// Of its line rate: with less it is slower than the pool's fastest plan. Above 1: it is slower
  /// at its line rate already. 0: it is faster at any, by latency alone.
  double tie = 0;
};

struct Comparison {
  PoolCase call;
  std::vector<PlanTime> plans;  ///< the engine's choice first
  std::size_t fastest = 0;      ///< of them
  std::vector<NetworkTime> networks;
  double gain() const { return plans[0].seconds / plans[fastest].seconds; }
};

/// Errors: invalid_argument, where no plan can be for the call; those of run_on_pool().
Result<Comparison> compare(const PlatformSet& set, const PoolCase& call);

}  // namespace penstock::model
