// The MPI that is installed: which one, and whether it can load our libfabric provider.
#pragma once

#include <string>
#include <vector>

#include "penstock/status.hpp"

namespace penstock::tools {

inline constexpr const char* install_mpich_command =
    "python3 -m venv .venv && .venv/bin/pip install mpich==5.0.2 mpi4py==4.1.2";

struct MpiRuntime {
  enum class Kind { mpich, open_mpi, intel, unknown };
  std::string mpiexec;
  Kind kind = Kind::unknown;
  std::string answer;           ///< first line that it prints when asked for its version
  std::string version;          ///< "5.0.2", "" when it does not say
  std::string library;          ///< the libmpi that belongs to this mpiexec, "" when not found
  bool has_libfabric = false;   ///< that library is built on libfabric
  std::string provider_folder;  ///< where its libfabric looks for providers by default, or ""

  std::string name() const;  ///< "MPICH 5.0.2 (/path/mpiexec)"
};

/// Asks the program (--version) and looks at the library beside it. Error: not_found.
Result<MpiRuntime> inspect_mpi(const std::string& mpiexec);

/// ok, or why `run` and `env` cannot use it, with the mending command.
Result<void> usable(const MpiRuntime& runtime);

/// Those in question for `program` (the job's command, may be ""), the best first: beside the
/// program, in $VIRTUAL_ENV, on the PATH, in ./.venv.
std::vector<std::string> mpiexec_candidates(const std::string& program);

/// `given` when not "", else the first usable candidate; when none is usable the error of the
/// first.
Result<MpiRuntime> find_mpi(const std::string& given, const std::string& program);

}  // namespace penstock::tools
