// Entry points of mpif.h and `use mpi`: mpi_put_ and its other spellings. Open MPI's mpi_f08
// arrives here too, by ompi_put_f.
//
// The spelling without an underscore is not intercepted. No compiler for x86-64 or aarch64 has it
// by default, and mpi_init or mpi_get may be a function of some library that has nothing to do
// with Fortran, which we would hide.
#include "fortran.hpp"

using namespace penstock::mpi;
using namespace penstock::mpi::fortran;

#define PENSTOCK_SPELLINGS(name, NAME, symbol) \
  PENSTOCK_ALIAS(mpi_##name##__, symbol)       \
  PENSTOCK_ALIAS(MPI_##NAME, symbol)           \
  PENSTOCK_ALIAS(ompi_##name##_f, symbol)

#define PENSTOCK_FORTRAN(name, NAME, call, parameters, arguments)           \
  PENSTOCK_ENTRY(mpi_##name##_, serves_mpif_h, call, parameters, arguments) \
  PENSTOCK_SPELLINGS(name, NAME, mpi_##name##_)
#define PENSTOCK_LOGICAL PENSTOCK_FORTRAN
#define PENSTOCK_BUFFER PENSTOCK_FORTRAN
#include "fortran_table.inc"

// The names behind a generic interface's form with a type(c_ptr).
#define PENSTOCK_CPTR(name, NAME, symbol)    \
  PENSTOCK_ALIAS(mpi_##name##_cptr_, symbol) \
  PENSTOCK_SPELLINGS(name##_cptr, NAME##_CPTR, symbol)
PENSTOCK_CPTR(alloc_mem, ALLOC_MEM, mpi_alloc_mem_)
PENSTOCK_CPTR(win_allocate, WIN_ALLOCATE, mpi_win_allocate_)
PENSTOCK_CPTR(win_allocate_shared, WIN_ALLOCATE_SHARED, mpi_win_allocate_shared_)
PENSTOCK_CPTR(win_shared_query, WIN_SHARED_QUERY, mpi_win_shared_query_)

PENSTOCK_EXPORT void mpi_win_get_attr_(Win win, Int keyval, Aint* value, Logical flag,
                                       int* ierror) {
  const void* caller = __builtin_return_address(0);
  static constinit Next<WinGetAttr> next("mpi_win_get_attr_");
  win_get_attr(next(caller), caller, win, keyval, value, flag, ierror);
}
PENSTOCK_SPELLINGS(win_get_attr, WIN_GET_ATTR, mpi_win_get_attr_)
