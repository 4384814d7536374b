// Runs a scenario many times: with random seeds, with a kill after each operation of a process, and
// with every schedule that departs from the usual one in few places.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/world/world.hpp"

namespace penstock::sim {

struct Scenario {
  std::string name;
  std::uint32_t nodes = 2;
  std::uint64_t device_bytes = 1 << 20;
  FaultModel faults{};
  unsigned max_seconds = 120;  ///< of CPU time, for one run
  bool swarm = true;           ///< a different fault model for each seed
  std::uint64_t max_steps = 2'000'000;
  /// Spawns the processes. Conditions are checked with World::require, in the processes, or in
  /// `after` when all have ended.
  std::function<void(World&)> body;
  /// Runs as a separate process on node 0 when all others have ended.
  std::function<void(World&)> after{};
  /// Sets the contents of the device at the beginning; zeros if absent.
  std::function<void(std::byte* device)> prepare{};
};

struct RunStatistics {
  std::uint64_t runs = 0;
  std::uint64_t failures = 0;
  std::uint64_t operations = 0;
  std::string first_failure;  ///< the violation, how to replay it, and the trace
  bool held() const { return failures == 0 && runs > 0; }
};

/// The seeds are 1, 2, ...; with PENSTOCK_SIM_FROM=N they are N, N+1, ... PENSTOCK_SIM_SEED=N
/// replays only one seed, PENSTOCK_SIM_RUNS=N takes N seeds instead of `runs`.
RunStatistics explore(const Scenario& scenario, std::uint64_t runs);

/// Kills World::victim at its operations, as a process and together with its node: at each
/// operation of the first seed if that takes at most half of `max_runs`, then at some operations of
/// further seeds.
RunStatistics crash_everywhere(const Scenario& scenario, std::uint64_t max_runs);

/// Runs every schedule with at most `deviations` departures: a switch, a store that arrives early,
/// a line that is evicted, ... Those with few departures come first, in case `max_runs` does not
/// suffice for all.
RunStatistics exhaust(const Scenario& scenario, std::uint32_t deviations, std::uint64_t max_runs);

/// For the table of `make prove`: appends one JSON object a line to $PENSTOCK_SIM_LOG.
void report(const std::string& protocol, const std::string& method,
            const RunStatistics& statistics);

}  // namespace penstock::sim
