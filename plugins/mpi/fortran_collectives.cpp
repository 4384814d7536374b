// The collective calls of Fortran whose functions call PMPI_*: Open MPI's, in all spellings
// (fortran_calls.cpp), and MPICH's barriers in mpi_f08. The other Fortran calls arrive at MPI_* in
// C. All ranks of a call have to enter the pool, by whichever language they come.
#include <array>
#include <string_view>

#include "collective_kinds.hpp"
#include "collective_words.hpp"
#include "collectives.hpp"
#include "fortran.hpp"
#include "pool_collectives.hpp"

namespace {

using namespace penstock::mpi;

Word in_c(char kind, Word word) {
  int* const at = reinterpret_cast<int*>(word);  // NOLINT: a reference in a word
  switch (kind) {
    case 'b':
      return reinterpret_cast<Word>(fortran::buffer(at));
    case 'i':
    case 'r':
      return static_cast<Word>(*at);
    case 't':
      return from_fortran(Kind::datatype, *at);
    case 'o':
      return from_fortran(Kind::op, *at);
    case 'c':
      return from_fortran(Kind::comm, *at);
    default:
      return word;
  }
}

template <class... Words>
auto words_in_c(CollectiveCall call, Words... fortran_words) {
  const std::string_view kinds = kinds_of(call);
  std::array words = {fortran_words...};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = in_c(kinds[i], words[i]);
  return words;
}

/// The call in the pool, if that serves it.
template <class... Words>
std::optional<int> in_pool(CollectiveCall call, const char* name, Words... fortran_words) {
  if (kinds_of(call).empty()) return std::nullopt;
  return collective_in_pool({call, words_in_c(call, fortran_words...), false, name});
}

using Begin = std::optional<int>(const Asked&, void* request);

/// The same for a call that does not block.
template <class... Words>
std::optional<int> begun_in_pool(Begin begin, CollectiveCall call, const char* name, int* request,
                                 Words... fortran_words) {
  Slot handle;
  const auto begun =
      begin({call, words_in_c(call, fortran_words...), false, name}, static_cast<void*>(handle));
  if (begun == constants().success) *request = to_fortran(Kind::request, handle.get());
  return begun;
}

}  // namespace

#define IN_FORTRAN(symbol, name, lower, n)                                         \
  PENSTOCK_EXPORT void symbol(WORDS_##n, int* ierror) {                            \
    const void* const caller = __builtin_return_address(0);                        \
    static constinit fortran::Next<decltype(symbol)> next(#symbol);                \
    auto* const function = next(caller);                                           \
    if (function == nullptr) return fortran::report(ierror, no_function);          \
    if (!fortran::serves_mpif_h(caller)) return function(NAMES_##n, ierror);       \
    const AroundCollective around;                                                 \
    if (const auto done = in_pool(CollectiveCall::lower, "MPI_" #name, NAMES_##n)) \
      return fortran::report(ierror, *done);                                       \
    function(NAMES_##n, ierror);                                                   \
  }

#define PENSTOCK_COLLECTIVE(name, lower, UPPER, n) \
  IN_FORTRAN(mpi_##lower##_, name, lower, n)       \
  IN_FORTRAN(mpi_##lower##__, name, lower, n)      \
  IN_FORTRAN(MPI_##UPPER, name, lower, n)          \
  IN_FORTRAN(ompi_##lower##_f, name, lower, n)
#define PENSTOCK_COUNTED(name, lower, UPPER, n) PENSTOCK_COLLECTIVE(name, lower, UPPER, n)
#include "collective_table.inc"

#undef PENSTOCK_COLLECTIVE
#undef PENSTOCK_COUNTED

/// `own`: the parameters before the request, and their names, that the blocking call has not.
#define BEGUN_IN_FORTRAN(symbol, serves, begin, name, lower, own, own_name, n)             \
  PENSTOCK_EXPORT void symbol(WORDS_##n own, int* request, int* ierror) {                  \
    const void* const caller = __builtin_return_address(0);                                \
    static constinit fortran::Next<decltype(symbol)> next(#symbol);                        \
    auto* const function = next(caller);                                                   \
    if (function == nullptr) return fortran::report(ierror, no_function);                  \
    if (!serves(caller)) return function(NAMES_##n own_name, request, ierror);             \
    if (const auto begun =                                                                 \
            begun_in_pool(begin, CollectiveCall::lower, "MPI_" #name, request, NAMES_##n)) \
      return fortran::report(ierror, *begun);                                              \
    function(NAMES_##n own_name, request, ierror);                                         \
  }
#define NO_PARAMETER
#define INFO_PARAMETER , Word info
#define INFO_NAME , info
#define NONBLOCKING(symbol, name, lower, n)                                                        \
  BEGUN_IN_FORTRAN(symbol, fortran::serves_mpif_h, nonblocking_in_pool, name, lower, NO_PARAMETER, \
                   NO_PARAMETER, n)
#define PERSISTENT(symbol, name, lower, n)                                          \
  BEGUN_IN_FORTRAN(symbol, fortran::serves_mpif_h, persistent_in_pool, name, lower, \
                   INFO_PARAMETER, INFO_NAME, n)

#define PENSTOCK_COLLECTIVE(name, lower, UPPER, n)
#define PENSTOCK_COUNTED(name, lower, UPPER, n)
#define PENSTOCK_IN_POOL(name, lower, UPPER, n)           \
  NONBLOCKING(mpi_i##lower##_, I##lower, lower, n)        \
  NONBLOCKING(mpi_i##lower##__, I##lower, lower, n)       \
  NONBLOCKING(MPI_I##UPPER, I##lower, lower, n)           \
  NONBLOCKING(ompi_i##lower##_f, I##lower, lower, n)      \
  PERSISTENT(mpi_##lower##_init_, name##_init, lower, n)  \
  PERSISTENT(mpi_##lower##_init__, name##_init, lower, n) \
  PERSISTENT(MPI_##UPPER##_INIT, name##_init, lower, n)   \
  PERSISTENT(ompi_##lower##_init_f, name##_init, lower, n)
#define PENSTOCK_COUNTED_IN_POOL PENSTOCK_IN_POOL
#include "collective_table.inc"

/// MPICH's mpi_f08 calls MPI_* in C where there is a buffer, but here PMPI_*.
PENSTOCK_EXPORT void mpi_barrier_f08_(Word comm, int* ierror) {
  static constinit fortran::Next<decltype(mpi_barrier_f08_)> next("mpi_barrier_f08_");
  const void* const caller = __builtin_return_address(0);
  auto* const function = next(caller);
  if (function == nullptr) return fortran::report(ierror, no_function);
  // Open MPI's calls ompi_barrier_f.
  if (!fortran::serves_f08(caller)) return function(comm, ierror);
  const AroundCollective around;
  if (const auto done = in_pool(CollectiveCall::barrier, "MPI_Barrier", comm))
    return fortran::report(ierror, *done);
  function(comm, ierror);
}
BEGUN_IN_FORTRAN(mpi_ibarrier_f08_, fortran::serves_f08, nonblocking_in_pool, Ibarrier, barrier,
                 NO_PARAMETER, NO_PARAMETER, 1)
BEGUN_IN_FORTRAN(mpi_barrier_init_f08_, fortran::serves_f08, persistent_in_pool, Barrier_init,
                 barrier, INFO_PARAMETER, INFO_NAME, 1)
