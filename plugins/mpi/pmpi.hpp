// The MPI of this process, found at run time: its PMPI_ functions. We link none.
#pragma once

#include <cstdint>
#include <string>

#include "abi.hpp"
#include "base/status.hpp"
#include "objects.hpp"

namespace penstock::mpi {

/// Handles are passed as Handle; where MPI has a pointer to a handle or an array of handles, void*
/// to memory of the ABI's width (a Slot). Null: this MPI does not have the function (those of MPI 4
/// and newer, the _c and _x forms); what is never null stands in pmpi_table.inc under NEEDED.
struct Pmpi {
#define PENSTOCK_NEEDED(name, arguments) int(*name) arguments = nullptr;
#define PENSTOCK_OPTIONAL(name, arguments) int(*name) arguments = nullptr;
#include "pmpi_table.inc"
#undef PENSTOCK_NEEDED
#undef PENSTOCK_OPTIONAL
};

/// Valid once find_mpi succeeded.
const Pmpi& pmpi();

/// Finds the MPI that `caller` (the return address of an intercepted call) calls, its functions and
/// its ABI. The first call decides, later ones return the same; thread-safe, cheap after the first.
/// RTLD_NEXT alone does not suffice: mpi4py and other plug-ins load their MPI RTLD_LOCAL.
/// Errors: no MPI is found; its ABI is unknown; two MPIs are in the process; a function is missing.
/// Each names the file, the version, what is needed and what fixes it.
Result<void> find_mpi(const void* caller);

/// PMPI_`name` of the MPI that `caller` calls, whether find_mpi succeeded or not: to pass a call on
/// under an MPI that we do not know. Null if there is none.
void* mpi_symbol(const char* name, const void* caller);

/// The next symbol of this name behind our function that `caller` called: a tool's, or the MPI's
/// own. Null if there is none.
void* next_symbol(const char* name, const void* caller);

/// A symbol of the MPI's library itself, after find_mpi(); nullptr when it has none of that name.
void* library_symbol(const char* name);

/// The library that find_mpi found, for messages.
struct Library {
  std::string file;     ///< that defines PMPI_Init
  std::string soname;   ///< "" when it has none
  std::string version;  ///< MPI_Get_library_version, its first line
};
const Library& library();

/// True if this object defines PMPI_Init, and no other but this library does.
bool is_the_only_mpi(const Place& object);

/// True if MPI_Init was called and MPI_Finalize was not: MPI_COMM_WORLD and MPI_COMM_SELF exist.
bool has_world();

/// A window's handle of Fortran (MPI_Fint) as one of C. Under MPICH they are the same numbers.
Handle window_from_fortran(int handle);

}  // namespace penstock::mpi
