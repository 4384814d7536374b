// A process's job, as its launcher (Hydra, PRRTE, srun, ...) describes it. All knowledge of
// particular launchers is here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.hpp"

namespace penstock::plugin {

struct Launch {
  std::int32_t rank = -1;        ///< -1: unknown
  std::int32_t size = 0;         ///< 0: unknown
  std::int32_t local_size = 0;   ///< ranks of the job on this host; 0: unknown
  std::int32_t local_rank = -1;  ///< among the ranks of its node, emulated or not; -1: unknown
  std::string job;               ///< the same for all ranks of the job, on every host
  std::string world;  ///< of the job, as far as the launcher tells them apart: ranks count in it
  std::optional<std::uint32_t> emulated_node;
};

/// The source of a launcher's traces; replaced in tests.
struct LaunchSources {
  /// Null when not set.
  std::function<const char*(const char*)> environment;
  /// Command line of the n-th ancestor (1: parent), arguments separated by '\0'; empty at the top.
  std::function<std::string(unsigned)> ancestor_command;
};
LaunchSources process_sources();

/// Errors: a PENSTOCK_NODE or PENSTOCK_NODES that is no number.
Result<Launch> read_launch(const LaunchSources& sources);

/// The number of ranks that an mpiexec has started together with this process; 0 without one. With
/// nested launchers the one that has started the fewest counts. srun does not count: programs that
/// it did not start inherit its variables.
std::int32_t ranks_started(const LaunchSources& sources);

}  // namespace penstock::plugin
