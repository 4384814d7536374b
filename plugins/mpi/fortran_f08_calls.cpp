// Entry points of `use mpi_f08` in MPICH and Intel MPI for calls without a buffer, such as
// mpi_win_fence_f08_; in Open MPI those with a truth value. A handle type has just one INTEGER.
#include "fortran.hpp"

using namespace penstock::mpi;
using namespace penstock::mpi::fortran;

#define PENSTOCK_FORTRAN(name, NAME, call, parameters, arguments) \
  PENSTOCK_ENTRY(mpi_##name##_f08_, serves_f08, call, parameters, arguments)
#define PENSTOCK_LOGICAL(name, NAME, call, parameters, arguments) \
  PENSTOCK_ENTRY(mpi_##name##_f08_, serves_f08_logical, call, parameters, arguments)
#define PENSTOCK_BUFFER(name, NAME, call, parameters, arguments)
#include "fortran_table.inc"

// The forms for large counts: MPICH 4.0 names them ..._f08_large_, later versions ..._c_f08_.
#define PENSTOCK_LARGE(name, call, parameters, arguments)                      \
  PENSTOCK_ENTRY(mpi_##name##_c_f08_, serves_f08, call, parameters, arguments) \
  PENSTOCK_ENTRY(mpi_##name##_f08_large_, serves_f08, call, parameters, arguments)
PENSTOCK_LARGE(win_allocate, MPI_Win_allocate_c(size, unit, info, comm, baseptr, made(win)),
               (Wide size, Wide unit, Info info, Comm comm, void* baseptr, Out<Kind::win> win),
               (size, unit, info, comm, baseptr, win))
PENSTOCK_LARGE(win_allocate_shared,
               MPI_Win_allocate_shared_c(size, unit, info, comm, baseptr, made(win)),
               (Wide size, Wide unit, Info info, Comm comm, void* baseptr, Out<Kind::win> win),
               (size, unit, info, comm, baseptr, win))
PENSTOCK_LARGE(win_shared_query, MPI_Win_shared_query_c(win, rank, size, unit, baseptr),
               (Win win, Int rank, Aint* size, Aint* unit, void* baseptr),
               (win, rank, size, unit, baseptr))

PENSTOCK_EXPORT void mpi_win_get_attr_f08_(Win win, Int keyval, Aint* value, Logical flag,
                                           int* ierror) {
  const void* caller = __builtin_return_address(0);
  static constinit Next<WinGetAttr> next("mpi_win_get_attr_f08_");
  win_get_attr(next(caller), caller, win, keyval, value, flag, ierror);
}
