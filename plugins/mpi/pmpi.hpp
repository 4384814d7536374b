// The MPI of this process and its PMPI_ functions, found at run time. We link no MPI.
#pragma once

#include <cstdint>
#include <string>

#include "abi.hpp"
#include "base/status.hpp"
#include "objects.hpp"

namespace penstock::mpi {

/// Handles are passed as Handle. A pointer to a handle, or an array of handles, is void* to memory
/// of the ABI's width (a Slot). A member is null if this MPI lacks the function (those of MPI 4 and
/// newer, the _c and _x forms); members under NEEDED in pmpi_table.inc are never null.
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
/// its ABI. The first call decides; later ones return the same result and are cheap. Thread-safe.
/// RTLD_NEXT alone does not suffice: mpi4py and other plug-ins load their MPI with RTLD_LOCAL.
/// Errors: no MPI is found; its ABI is unknown; two MPIs are in the process; a function is missing.
/// Each message names the file, the version, what is needed and what fixes it.
Result<void> find_mpi(const void* caller);

/// PMPI_`name` of the MPI that `caller` calls; null if there is none. Works even if find_mpi()
/// failed, so that calls can be passed on to an unknown MPI.
void* mpi_symbol(const char* name, const void* caller);

/// The next symbol of this name after our function that `caller` called: a tool's or the MPI's own.
/// Null if there is none.
void* next_symbol(const char* name, const void* caller);

/// A symbol of the MPI's library itself, after find_mpi(); null if it has none of that name.
void* library_symbol(const char* name);

/// The library that find_mpi found, for messages.
struct Library {
  std::string file;     ///< the file that defines PMPI_Init
  std::string soname;   ///< "" if it has none
  std::string version;  ///< the first line of MPI_Get_library_version
};
const Library& library();

/// True if `object` is the only loaded object, besides this library, that defines PMPI_Init.
bool is_the_only_mpi(const Place& object);

/// True if MPI_Init was called and MPI_Finalize was not: MPI_COMM_WORLD and MPI_COMM_SELF exist.
bool has_world();

/// Converts a window's Fortran handle (MPI_Fint) to C. Under MPICH they are the same numbers.
Handle window_from_fortran(int handle);

}  // namespace penstock::mpi
