// The MPI that is installed: which one, and whether it can load our libfabric provider.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace penstock::tools {

enum class MpiKind { mpich, open_mpi, intel, unknown };

/// "Open MPI".
const char* mpi_title(MpiKind kind);
/// The MPI whose programs load a library of this name, such as libmpi.so.40. nullopt if it is no
/// MPI's, or that of several, like libmpi_abi.so.1 of MPI's standard ABI.
std::optional<MpiKind> owner_of(std::string_view library);
/// True for a library of MPI's standard ABI.
bool is_standard_abi(std::string_view library);

/// Parses the values of --mpi: mpich, openmpi, intel. Error: invalid_argument.
Result<MpiKind> parse_mpi(std::string_view text);
/// How to get one that can be used; MPICH's for `unknown`.
const char* install_command(MpiKind kind);

struct MpiRuntime {
  std::string mpiexec;
  MpiKind kind = MpiKind::unknown;
  std::string answer;            ///< first line that it prints when asked for its version
  std::string version;           ///< "5.0.2", "" when it does not say
  std::string library;           ///< the libmpi that belongs to this mpiexec, "" when not found
  std::string abi_library;       ///< beside it, that of MPI's standard ABI, "" for none
  bool has_libfabric = false;    ///< that library is built on libfabric
  std::string libfabric_folder;  ///< Intel's own libfabric, ""
  std::string provider_folder;   ///< where its libfabric looks by default and still may, or ""

  std::string name() const;  ///< "MPICH 5.0.2 (/path/mpiexec)"
  unsigned major() const;    ///< 5 of "5.0.2", 0 when it does not say
  /// Programs that load a library of this name are programs of this MPI.
  bool serves(std::string_view library) const;
};

/// Asks the program (--version) and looks at the library beside it. Error: not_found.
Result<MpiRuntime> inspect_mpi(const std::string& mpiexec);

/// ok, or why `run` and `env` cannot use it, with the fixing command.
Result<void> usable(const MpiRuntime& runtime);

}  // namespace penstock::tools
