// Calls in C that come from MPICH's mpi_f08.
#pragma once

namespace penstock::mpi {

/// MPICH's mpi_f08 calls MPI_Iallreduce for a buffer, and PMPI_Wait for its request: so where its
/// waits are not ours (fortran_requests.cpp) what it begins must be the MPI's. Its mpif.h and `use
/// mpi` call MPI_* for both. `caller`: the return address of the call.
bool ends_at_the_mpi(const void* caller);

}  // namespace penstock::mpi
