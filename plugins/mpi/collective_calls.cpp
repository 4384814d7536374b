// The blocking collective calls: through the pool where it serves the communicator, else passed
// on to the MPI unchanged (collectives.hpp).
#include "collective_words.hpp"
#include "collectives.hpp"
#include "export.hpp"
#include "found.hpp"
#include "pool_collectives.hpp"

namespace {

using namespace penstock::mpi;

template <class... Words>
std::optional<int> in_pool(CollectiveCall call, bool large, const char* name, Words... arguments) {
  const Word words[] = {arguments...};
  return collective_in_pool({call, words, large, name});
}

}  // namespace

#define IN_C(name, lower, n)                                                              \
  PENSTOCK_EXPORT int MPI_##name(WORDS_##n) {                                             \
    static constinit Found<int(WORDS_##n)> found;                                         \
    auto* const function = found(#name, __builtin_return_address(0));                     \
    if (function == nullptr) return no_function;                                          \
    const AroundCollective around;                                                        \
    if (const auto done = in_pool(CollectiveCall::lower, false, "MPI_" #name, NAMES_##n)) \
      return *done;                                                                       \
    return function(NAMES_##n);                                                           \
  }

/// For an MPI without the large form, calls the plain form if the counts fit an int.
#define IN_C_LARGE(name, lower, n, ...)                                                  \
  PENSTOCK_EXPORT int MPI_##name##_c(WORDS_##n) {                                        \
    static constinit Found<int(WORDS_##n)> large, plain;                                 \
    const void* const caller = __builtin_return_address(0);                              \
    auto* function = large(#name "_c", caller);                                          \
    if (function == nullptr) {                                                           \
      function = plain(#name, caller);                                                   \
      if (function == nullptr) return no_function;                                       \
      for (const Word count : {__VA_ARGS__}) {                                           \
        if (!fit_int({static_cast<Count>(count)})) return constants().err_count;         \
      }                                                                                  \
    }                                                                                    \
    const AroundCollective around;                                                       \
    if (const auto done = in_pool(CollectiveCall::lower, true, "MPI_" #name, NAMES_##n)) \
      return *done;                                                                      \
    return function(NAMES_##n);                                                          \
  }

#define PENSTOCK_COLLECTIVE(name, lower, UPPER, n) IN_C(name, lower, n)
#define PENSTOCK_COUNTED(name, lower, UPPER, n, ...) \
  IN_C(name, lower, n)                               \
  IN_C_LARGE(name, lower, n, __VA_ARGS__)
#include "collective_table.inc"
