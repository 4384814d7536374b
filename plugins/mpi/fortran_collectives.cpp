// The blocking collective calls of Fortran whose functions call PMPI_*: Open MPI's, in all
// spellings (fortran_calls.cpp), and MPICH's barrier in mpi_f08. The other Fortran calls arrive at
// MPI_* in C. All ranks of a call have to enter the pool, by whichever language they come.
#include <array>
#include <string_view>

#include "collective_words.hpp"
#include "collectives.hpp"
#include "fortran.hpp"
#include "pool_collectives.hpp"

namespace {

using namespace penstock::mpi;

/// What the arguments of a call are: b a buffer, i an integer, a an array of integers, t a
/// datatype, o an operation, c a communicator. "": the call is passed on as it is.
constexpr std::string_view arguments_of(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::barrier:
      return "c";
    case CollectiveCall::bcast:
      return "bitic";
    case CollectiveCall::gather:
    case CollectiveCall::scatter:
      return "bitbitic";
    case CollectiveCall::gatherv:
      return "bitbaatic";
    case CollectiveCall::scatterv:
      return "baatbitic";
    case CollectiveCall::allgather:
    case CollectiveCall::alltoall:
      return "bitbitc";
    case CollectiveCall::allgatherv:
      return "bitbaatc";
    case CollectiveCall::alltoallv:
      return "baatbaatc";
    case CollectiveCall::reduce:
      return "bbitoic";
    case CollectiveCall::allreduce:
    case CollectiveCall::scan:
    case CollectiveCall::exscan:
    case CollectiveCall::reduce_scatter_block:
      return "bbitoc";
    case CollectiveCall::reduce_scatter:
      return "bbatoc";
    default:
      return "";
  }
}

Word in_c(char kind, Word word) {
  int* const at = reinterpret_cast<int*>(word);  // NOLINT: a reference in a word
  switch (kind) {
    case 'b':
      return reinterpret_cast<Word>(fortran::buffer(at));
    case 'i':
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

/// The call in the pool, if that serves it.
template <class... Words>
std::optional<int> in_pool(CollectiveCall call, const char* name, Words... fortran_words) {
  const std::string_view kinds = arguments_of(call);
  if (kinds.empty()) return std::nullopt;
  std::array words = {fortran_words...};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = in_c(kinds[i], words[i]);
  return collective_in_pool({call, words, false, name});
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
#define PENSTOCK_COUNTED(name, lower, UPPER, n, ...) PENSTOCK_COLLECTIVE(name, lower, UPPER, n)
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
