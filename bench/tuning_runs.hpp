// Runs the calls of tuning_cases.hpp: a process for each rank, on nodes of some ranks each.
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
  std::uint64_t budget_ns = 0;  ///< no round begins after it; a few are made in any case
  bool pinned = true;           ///< each rank to a CPU of its own
  /// Called now and then with the rounds that are done and the most that there will be.
  std::function<void(std::uint32_t done, std::uint32_t most)> progress;
};

/// A case with the times of each of its candidates, of the slowest rank.
struct MeasuredCase {
  TuningCase what;
  std::vector<double> ns;        ///< medians
  std::vector<double> least_ns;  ///< of the best rounds
};

/// The calling process has no attachment, and no threads. Errors: what a rank reports, a rank that
/// died, deadline, interruption; then all ranks are gone.
Result<std::vector<MeasuredCase>> measure_plans(const TuningRun& run);

}  // namespace penstock::bench
