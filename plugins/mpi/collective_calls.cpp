// The blocking collective calls. They go through the pool if it serves the communicator; otherwise
// they are passed on to the MPI unchanged (collectives.hpp).
#include <array>
#include <tuple>

#include "collective_words.hpp"
#include "collectives.hpp"
#include "export.hpp"
#include "found.hpp"
#include "narrowed.hpp"
#include "persistent_sends.hpp"
#include "pool_collectives.hpp"

namespace {

using namespace penstock::mpi;

template <class... Words>
std::optional<int> in_pool(CollectiveCall call, bool large, const char* name, Words... arguments) {
  const Word words[] = {arguments...};
  return collective_in_pool({call, words, large, name});
}

/// Makes the call by the MPI.
template <class... Words>
int passed_on(CollectiveCall call, int (*function)(Words...), Words... arguments) {
  std::array<Word, sizeof...(Words)> words{arguments...};
  const TrueBeginnings beginnings(call, words);
  return std::apply(function, words);
}

}  // namespace

#define IN_C(name, lower, n)                                                              \
  PENSTOCK_MPI(name, (WORDS_##n), (NAMES_##n)) {                                          \
    static constinit Found<int(WORDS_##n)> found;                                         \
    auto* const function = found(#name, caller);                                          \
    if (function == nullptr) return no_function;                                          \
    const AroundCollective around;                                                        \
    if (const auto done = in_pool(CollectiveCall::lower, false, "MPI_" #name, NAMES_##n)) \
      return *done;                                                                       \
    return passed_on(CollectiveCall::lower, function, NAMES_##n);                         \
  }

/// Defines the form with large counts. If the MPI lacks it and the counts fit an int, calls the
/// plain form.
#define IN_C_LARGE(name, lower, n)                                                       \
  PENSTOCK_MPI(name##_c, (WORDS_##n), (NAMES_##n)) {                                     \
    static constinit Found<int(WORDS_##n)> large, plain;                                 \
    auto* const function = large(#name "_c", caller);                                    \
    auto* const shorter = function == nullptr ? plain(#name, caller) : nullptr;          \
    if (function == nullptr && shorter == nullptr) return no_function;                   \
    const AroundCollective around;                                                       \
    if (const auto done = in_pool(CollectiveCall::lower, true, "MPI_" #name, NAMES_##n)) \
      return *done;                                                                      \
    if (function != nullptr) return function(NAMES_##n);                                 \
    return narrowed(CollectiveCall::lower, true, shorter, NAMES_##n);                    \
  }

#define PENSTOCK_COLLECTIVE(name, lower, n, kinds) IN_C(name, lower, n)
#define PENSTOCK_COUNTED(name, lower, n, kinds) \
  IN_C(name, lower, n)                          \
  IN_C_LARGE(name, lower, n)
#include "collective_table.inc"
