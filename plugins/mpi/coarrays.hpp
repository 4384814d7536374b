// Detects gfortran's coarrays in this process. OpenCoarrays, which implements them, uses its
// windows as if their memory model were MPI_WIN_UNIFIED, without asking for it
// (docs/decisions/0042).
#pragma once

namespace penstock::mpi {

bool has_coarrays();

}  // namespace penstock::mpi
