// Runs SimGrid: replays traces of ranks on platforms.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bench/supervisor.hpp"

namespace penstock::tools {

/// The version of SimGrid on the PATH, "3.32". Errors: not_found, which says how to install it.
Result<std::string> simgrid_version();

/// Traces on a platform.
struct Replay {
  std::string traces;  ///< the file that lists them
  std::size_t ranks = 0;
  std::uint32_t nodes = 0;
  std::string platform;  ///< XML
};

/// Returns the seconds of each replay; runs as many at once as there are CPUs. Calls `done` after
/// each. `signals`: an interruption ends SimGrid too, and is an error. `folder`: for SimGrid's
/// files. Errors: unavailable, with SimGrid's output; deadline; permission.
Result<std::vector<double>> replay_all(const std::string& folder, const std::vector<Replay>& all,
                                       const bench::HeldSignals& signals,
                                       const std::function<void()>& done = {});

}  // namespace penstock::tools
