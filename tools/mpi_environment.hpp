// Makes an MPI choose the provider: environment variables, and arguments of its launcher.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "mpi_runtime.hpp"

namespace penstock::tools {

/// Names and values; nullopt: the variable is unset.
using Environment = std::vector<std::pair<std::string, std::optional<std::string>>>;

/// Why variables that the user has set are unset, a sentence each.
std::vector<std::string> unset_notes(const Environment& environment);

struct JobEnvironment {
  std::string pool;
  std::string job;          ///< "" leaves it to the launcher
  std::uint32_t nodes = 0;  ///< emulated on one machine; 0: the hosts are real
  bool require = true;      ///< fail rather than fall back
  bool windows = true;      ///< in the pool, by a library that is preloaded
  bool nccl = false;        ///< in the pool, likewise
  std::string mode;         ///< "" : whatever the pool has
  std::string exit_log;     ///< "" : the first rank to end is not recorded
  std::string scratch;      ///< a folder for what the launcher makes while it runs; "" : its own
  bool take_turns = false;  ///< more ranks than cores
};

/// In the order in which they are worth reading. Errors: no provider library, no window
/// library.
Result<Environment> mpi_environment(const MpiRuntime& runtime, const JobEnvironment& job);

/// Of a program without an MPI that calls NCCL.
Result<Environment> nccl_environment(const std::string& pool, std::uint32_t nodes);

/// mpiexec and its arguments up to the program, for `ranks` on this host, on so many emulated
/// nodes.
std::vector<std::string> launch_command(const MpiRuntime& runtime, std::uint32_t ranks,
                                        std::uint32_t nodes, bool bind);

/// Needs of the user's own launcher besides the variables, a sentence per line; may be empty.
std::vector<std::string> launcher_notes(const MpiRuntime& runtime, const Environment& environment,
                                        const JobEnvironment& job);

}  // namespace penstock::tools
