// Checks of MPI_COMM_WORLD in a job that has named a pool.
#pragma once

namespace penstock::mpi {

/// To be called once the MPI is initialized. Names a process that is alone in MPI_COMM_WORLD
/// although its launcher has started several, and messages that go past the pool because the MPI
/// has not opened the libfabric provider penstock. Each ends this process (status 78) with
/// PENSTOCK_REQUIRE, and is else a warning.
void check_world();

}  // namespace penstock::mpi
