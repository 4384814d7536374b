// Runs a scenario many times: with random seeds, with a kill after each operation of a process,
// and with every schedule that departs from the usual one in few places.
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
  unsigned max_seconds = 120;  ///< of CPU time, of a run
  bool swarm = true;           ///< another fault model for each seed
  std::uint64_t max_steps = 2'000'000;
  /// Spawns the processes. Checks what must hold with World::require, in the processes, or after
  /// all have ended in `after`.
  std::function<void(World&)> body;
  /// Runs as a process of its own on node 0 when all others have ended.
  std::function<void(World&)> after{};
  /// Contents of the device at the beginning; zeros if absent.
  std::function<void(std::byte* device)> prepare{};
};

struct RunStatistics {
  std::uint64_t runs = 0;
  std::uint64_t failures = 0;
  std::uint64_t operations = 0;
  std::string first_failure;  ///< what, how to replay, and the trace
  bool held() const { return failures == 0 && runs > 0; }
};

/// The seeds are 1, 2, ...; with PENSTOCK_SIM_FROM=N they are N, N+1, ... PENSTOCK_SIM_SEED=N
/// replays one seed alone, PENSTOCK_SIM_RUNS=N takes N seeds instead of `runs`.
RunStatistics explore(const Scenario& scenario, std::uint64_t runs);

/// Kills World::victim at its operations, as a process and together with its node: at each one of
/// the first seed if that takes at most half of `max_runs`, then at some of further seeds.
RunStatistics crash_everywhere(const Scenario& scenario, std::uint64_t max_runs);

/// Every schedule with at most `deviations` departures: a switch, a store that arrives early, a
/// line that is evicted, ... Those with few come first, should `max_runs` not suffice for all.
RunStatistics exhaust(const Scenario& scenario, std::uint32_t deviations, std::uint64_t max_runs);

/// For the table of `make prove`: appended to $PENSTOCK_PROOF_LOG as one JSON object a line.
void report(const std::string& protocol, const std::string& method,
            const RunStatistics& statistics);

}  // namespace penstock::sim
