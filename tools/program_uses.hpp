// Finds which of MPI, NCCL and torch a program uses, without running it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

/// A process group that a Python program makes.
struct TorchGroup {
  std::string backend;  ///< "" if the source does not name it by a constant
  std::string place;    ///< file:line
  bool named = true;    ///< false: the call leaves the back end to torch
};

struct PythonUses {
  std::string interpreter, version;
  std::string script;  ///< "" if there is none to read
  std::string mpi4py;  ///< its version, and through which package; "" if it is not used
  std::string torch;   ///< the same
  bool has_penstock = false;
  std::vector<std::string> missing;  ///< modules that the program needs and this Python lacks
  std::vector<TorchGroup> groups;
};

struct ProgramUses {
  std::string path;   ///< of the program
  std::string shell;  ///< the shell whose script it is; "" if it is none
  std::optional<PythonUses> python;
  std::string libmpi;               ///< such as libmpi.so.12; "" if none is linked
  std::string libmpi_user;          ///< the file that names it
  std::string libnccl_user;         ///< the file that names libnccl.so.2; "" if none does
  bool static_mpi = false;          ///< the program has MPI's functions in itself
  bool privileged = false;          ///< setuid or setgid: the loader ignores LD_PRELOAD
  std::vector<std::string> absent;  ///< libraries that the loader does not find
  std::vector<std::string> calls;   ///< MPI functions that are called, such as mpi_alltoallw
};

/// Examines a program and its arguments, which name the script if it is an interpreter. Errors:
/// not_found; wrong_format for a program into which nothing can be loaded.
Result<ProgramUses> program_uses(const std::string& program,
                                 const std::vector<std::string>& arguments);

/// The libmpi that the program, or a library of it, is linked with; "" for none.
std::string linked_libmpi(const std::string& program);

}  // namespace penstock::tools
