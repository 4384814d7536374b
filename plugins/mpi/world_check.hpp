// Checks of MPI_COMM_WORLD in a job that has named a pool.
#pragma once

namespace penstock::mpi {

/// Checks the world; to be called once the MPI is initialized. Reports a process that is alone in
/// MPI_COMM_WORLD although its launcher started several, and messages that bypass the pool because
/// the MPI has not opened the libfabric provider penstock. Either ends this process (status 78)
/// with PENSTOCK_REQUIRE, and is a warning otherwise.
void check_world();

}  // namespace penstock::mpi
