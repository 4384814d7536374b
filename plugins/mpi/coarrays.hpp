// Whether this process runs coarrays of gfortran. OpenCoarrays, which carries them out, makes
// windows that it uses as if they were of MPI_WIN_UNIFIED, and does not ask for it
// (docs/decisions/0042).
#pragma once

namespace penstock::mpi {

bool has_coarrays();

}  // namespace penstock::mpi
