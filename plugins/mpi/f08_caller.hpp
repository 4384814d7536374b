// Whether a call in C comes from MPICH's mpi_f08.
#pragma once

namespace penstock::mpi {

/// MPICH's mpi_f08 calls MPI_Iallreduce for a buffer, and PMPI_Wait for its request: so what it
/// begins must be the MPI's. Its mpif.h and `use mpi` call MPI_* for both. `caller`: the return
/// address of the call.
bool is_called_by_f08(const void* caller);

}  // namespace penstock::mpi
