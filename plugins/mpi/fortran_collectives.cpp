// The blocking collective calls of Fortran whose functions call PMPI_*: Open MPI's, in all
// spellings (fortran_calls.cpp), and MPICH's barrier in mpi_f08. The other Fortran calls arrive at
// MPI_* in C.
#include "collective_words.hpp"
#include "collectives.hpp"
#include "fortran.hpp"

namespace {

using namespace penstock::mpi;

bool is_open_mpi(const void* caller) {
  return usable(caller) && abi() == Abi::open_mpi;
}

}  // namespace

#define IN_FORTRAN(symbol, n)                                             \
  PENSTOCK_EXPORT void symbol(WORDS_##n, int* ierror) {                   \
    const void* const caller = __builtin_return_address(0);               \
    static constinit fortran::Next<decltype(symbol)> next(#symbol);       \
    auto* const function = next(caller);                                  \
    if (function == nullptr) return fortran::report(ierror, no_function); \
    if (!is_open_mpi(caller)) return function(NAMES_##n, ierror);         \
    const AroundCollective around;                                        \
    function(NAMES_##n, ierror);                                          \
  }

#define PENSTOCK_COLLECTIVE(name, lower, UPPER, n) \
  IN_FORTRAN(mpi_##lower##_, n)                    \
  IN_FORTRAN(mpi_##lower##__, n)                   \
  IN_FORTRAN(MPI_##UPPER, n)                       \
  IN_FORTRAN(ompi_##lower##_f, n)
#define PENSTOCK_COUNTED(name, lower, UPPER, n, ...) PENSTOCK_COLLECTIVE(name, lower, UPPER, n)
#include "collective_table.inc"

/// MPICH's mpi_f08 calls MPI_* in C where there is a buffer, but here PMPI_*.
PENSTOCK_EXPORT void mpi_barrier_f08_(Word comm, int* ierror) {
  static constinit fortran::Next<decltype(mpi_barrier_f08_)> next("mpi_barrier_f08_");
  const void* const caller = __builtin_return_address(0);
  auto* const function = next(caller);
  if (function == nullptr) return fortran::report(ierror, no_function);
  if (is_open_mpi(caller)) return function(comm, ierror);  // it calls ompi_barrier_f
  const AroundCollective around;
  function(comm, ierror);
}
