// Runs the calls of tuning_cases.hpp: one process for each rank, several ranks on a node.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bench/tuning_cases.hpp"

namespace penstock::bench {

struct TuningRun {
  std::string spec;  ///< of the pool
  std::uint32_t ranks = 2;
  std::uint32_t per_node = 1;
  TuningGrid grid;
  std::uint64_t budget_ns = 0;  ///< no round begins after it, but a few are always made
  bool pinned = true;           ///< pins each rank to a CPU of its own
  /// Called now and then with the number of rounds done, and their greatest possible number.
  std::function<void(std::uint32_t done, std::uint32_t most)> progress;
};

/// A case with the times of each of its candidates, for the slowest rank.
struct MeasuredCase {
  TuningCase what;
  std::vector<double> ns;        ///< medians
  std::vector<double> least_ns;  ///< of the best rounds
};

/// The calling process must have no attachment and no threads. Errors: those of a rank, a rank that
/// died, deadline, interruption; no rank is then left.
Result<std::vector<MeasuredCase>> measure_plans(const TuningRun& run);

}  // namespace penstock::bench
