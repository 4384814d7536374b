// The environment that makes an MPI choose the provider.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mpi_runtime.hpp"
#include "penstock/status.hpp"

namespace penstock::tools {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct JobEnvironment {
  std::string pool;
  std::string job;          ///< "" leaves it to the launcher
  std::uint32_t nodes = 0;  ///< emulated on one machine; 0: the hosts are real
  bool require = true;      ///< fail rather than fall back
  std::string mode;         ///< "" : whatever the pool has
  std::string roll;         ///< "" : nobody asks who ended first
};

/// Variables for MPICH, in the order in which they are worth reading. Errors: no provider library.
Result<Environment> mpich_environment(const MpiRuntime& runtime, const JobEnvironment& job);

}  // namespace penstock::tools
