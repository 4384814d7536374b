// Whether the MPI's messages go through the pool that was asked for.
#pragma once

namespace penstock::mpi {

/// To be called once the MPI is initialized. If a pool is named and the MPI has not opened the
/// libfabric provider penstock, it ends this process (status 78) with PENSTOCK_REQUIRE, else warns.
void check_transport();

}  // namespace penstock::mpi
