// The installed MPI: which one it is, and whether it can load Penstock's libfabric provider.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace penstock::tools {

enum class MpiKind { mpich, open_mpi, intel, unknown };

/// "Open MPI".
const char* mpi_title(MpiKind kind);
/// The MPI whose programs load a library of this name, such as libmpi.so.40. Nullopt if no MPI has
/// such a library, or several do, as libmpi_abi.so.1 of MPI's standard ABI.
std::optional<MpiKind> owner_of(std::string_view library);
/// True for a library of MPI's standard ABI.
bool is_standard_abi(std::string_view library);

/// Parses the values of --mpi: mpich, openmpi, intel. Errors: invalid_argument.
Result<MpiKind> parse_mpi(std::string_view text);
/// The command that installs a usable one; MPICH's for `unknown`.
const char* install_command(MpiKind kind);

struct MpiRuntime {
  std::string mpiexec;
  MpiKind kind = MpiKind::unknown;
  std::string answer;            ///< first line of its answer when asked for its version
  std::string version;           ///< "5.0.2"; "" if it does not say
  std::string library;           ///< the libmpi that belongs to this mpiexec; "" if not found
  std::string abi_library;       ///< the library of MPI's standard ABI beside it; "" if there is
                                 ///< none
  bool has_libfabric = false;    ///< `library` is built on libfabric
  std::string libfabric_folder;  ///< Intel's own libfabric, or ""
  std::string provider_folder;   ///< the folder that its libfabric searches by default and still
                                 ///< may, or ""

  std::string name() const;  ///< "MPICH 5.0.2 (/path/mpiexec)"
  unsigned major() const;    ///< 5 for "5.0.2"; 0 if it does not say
  /// Whether programs that load a library of this name belong to this MPI.
  bool serves(std::string_view library) const;
};

/// Asks the program (--version) and examines the library beside it. Errors: not_found.
Result<MpiRuntime> inspect_mpi(const std::string& mpiexec);

/// Returns why `run` and `env` cannot use it, if they cannot, with the command that fixes it.
Result<void> usable(const MpiRuntime& runtime);

}  // namespace penstock::tools
