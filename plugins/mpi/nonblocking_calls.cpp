// The nonblocking and persistent collective calls. They go through the pool if it serves the
// communicator; otherwise they are passed on to the MPI unchanged.
#include "collective_words.hpp"
#include "export.hpp"
#include "found.hpp"
#include "narrowed.hpp"
#include "pool_collectives.hpp"

namespace {

using namespace penstock::mpi;

using Begin = std::optional<int>(const Asked&, void* request);

template <class... Words>
std::optional<int> in_pool(Begin begin, CollectiveCall call, bool large, const char* name,
                           void* request, Words... arguments) {
  const Word words[] = {arguments...};
  return begin({call, words, large, name}, request);
}

}  // namespace

// `own`, `own_name`: the parameter that the form has before the request and the blocking call
// lacks.
#define FORM(begin, lower, called, own, own_name, n)                                          \
  PENSTOCK_MPI(called, (WORDS_##n own, void* request), (NAMES_##n own_name, request)) {       \
    static constinit Found<int(WORDS_##n own, void*)> found;                                  \
    auto* const function = found(#called, caller);                                            \
    if (function == nullptr) return no_function;                                              \
    if (const auto begun =                                                                    \
            in_pool(begin, CollectiveCall::lower, false, "MPI_" #called, request, NAMES_##n)) \
      return *begun;                                                                          \
    return function(NAMES_##n own_name, request);                                             \
  }

/// Defines the form with large counts. If the MPI lacks it and the counts fit an int, calls the
/// plain form.
#define FORM_LARGE(begin, lower, called, own, own_name, n)                                   \
  PENSTOCK_MPI(called##_c, (WORDS_##n own, void* request), (NAMES_##n own_name, request)) {  \
    static constinit Found<int(WORDS_##n own, void*)> large, plain;                          \
    auto* const function = large(#called "_c", caller);                                      \
    auto* const shorter = function == nullptr ? plain(#called, caller) : nullptr;            \
    if (function == nullptr && shorter == nullptr) return no_function;                       \
    if (const auto begun =                                                                   \
            in_pool(begin, CollectiveCall::lower, true, "MPI_" #called, request, NAMES_##n)) \
      return *begun;                                                                         \
    if (function != nullptr) return function(NAMES_##n own_name, request);                   \
    const auto call = [&](auto... words) { return shorter(words... own_name, request); };    \
    return narrowed(CollectiveCall::lower, false, call, NAMES_##n);                          \
  }

#define NO_PARAMETER
#define INFO_PARAMETER , Word info
#define INFO_NAME , info
#define BOTH(name, lower, n)                                                \
  FORM(nonblocking_in_pool, lower, I##lower, NO_PARAMETER, NO_PARAMETER, n) \
  FORM(persistent_in_pool, lower, name##_init, INFO_PARAMETER, INFO_NAME, n)

#define PENSTOCK_COLLECTIVE(name, lower, n, kinds)
#define PENSTOCK_COUNTED(name, lower, n, kinds)
#define PENSTOCK_IN_POOL(name, lower, n, kinds) BOTH(name, lower, n)
#define PENSTOCK_COUNTED_IN_POOL(name, lower, n, kinds)                           \
  BOTH(name, lower, n)                                                            \
  FORM_LARGE(nonblocking_in_pool, lower, I##lower, NO_PARAMETER, NO_PARAMETER, n) \
  FORM_LARGE(persistent_in_pool, lower, name##_init, INFO_PARAMETER, INFO_NAME, n)
#include "collective_table.inc"
