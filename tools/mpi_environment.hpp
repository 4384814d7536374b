// Makes an MPI choose the provider, by environment variables and arguments of its launcher.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "mpi_runtime.hpp"

namespace penstock::tools {

/// Names and values; nullopt: unset the variable.
using Environment = std::vector<std::pair<std::string, std::optional<std::string>>>;

/// Explains, one sentence each, why variables that the user has set are unset.
std::vector<std::string> unset_notes(const Environment& environment);

struct JobEnvironment {
  std::string pool;
  std::string job;          ///< "": the launcher chooses it
  std::uint32_t nodes = 0;  ///< emulated nodes on one machine; 0: real hosts
  bool require = true;      ///< fail rather than fall back
  bool windows = true;      ///< windows in the pool, by a preloaded library
  bool nccl = false;        ///< NCCL in the pool, also by a preloaded library
  std::string mode;         ///< "" : that of the pool
  std::string exit_log;     ///< "" : do not record which rank ends first
  std::string scratch;      ///< folder for the launcher's temporary files; "" : its own choice
  bool take_turns = false;  ///< there are more ranks than cores
};

/// The variables, in the order in which people should read them. Errors: no provider library, no
/// window library.
Result<Environment> mpi_environment(const MpiRuntime& runtime, const JobEnvironment& job);

/// The variables for a program that calls NCCL and uses no MPI.
Result<Environment> nccl_environment(const std::string& pool, std::uint32_t nodes);

/// mpiexec and its arguments up to the program, for `ranks` ranks on this host and `nodes` emulated
/// nodes.
std::vector<std::string> launch_command(const MpiRuntime& runtime, std::uint32_t ranks,
                                        std::uint32_t nodes, bool bind);

/// Further needs of the user's own launcher, a sentence for each line; may be empty.
/// empty.
std::vector<std::string> launcher_notes(const MpiRuntime& runtime, const Environment& environment,
                                        const JobEnvironment& job);

}  // namespace penstock::tools
