// Where the windows start and end with the MPI of the process.
#pragma once

namespace penstock::mpi {

/// The MPI is found and was initialized, by MPI_Init or MPI_Init_thread.
void after_init();
/// MPI_Finalize was called; the MPI still works.
void before_finalize();

}  // namespace penstock::mpi
