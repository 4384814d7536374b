// Programs that another MPI's launcher has started: each process is then alone in MPI_COMM_WORLD.
#pragma once

namespace penstock::mpi {

/// After MPI_Init, whose status it returns. Names a process that is alone although its launcher has
/// started several; with PENSTOCK_REQUIRE that ends the job.
int check_world(int status);

}  // namespace penstock::mpi
