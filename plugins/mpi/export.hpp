// How intercepted functions are defined.
#pragma once

#include "real.hpp"
#include "refusal.hpp"
#include "windows.hpp"

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

namespace penstock::mpi {

/// Whether calls of the MPI that `caller` uses can be served; says once why not.
inline bool usable(const void* caller) {
  const auto found = find_mpi(caller);
  if (!found) refuse(found.error().message);
  return found.has_value();
}

/// The MPI's own function, also of an MPI that we do not know.
template <class Function>
Function original(Function known, const char* name, const void* caller) {
  return known != nullptr ? known : reinterpret_cast<Function>(mpi_symbol(name, caller));
}

inline constexpr int no_function =
    16;  // MPI_ERR_OTHER or nearly so, where there is not even an MPI

}  // namespace penstock::mpi

/// The MPI itself does it. `arguments` in parentheses; `caller` is known.
#define PENSTOCK_PASS(name, arguments)                                                            \
  [&] {                                                                                           \
    const auto function = ::penstock::mpi::original(::penstock::mpi::real().name, #name, caller); \
    return function != nullptr ? function arguments : ::penstock::mpi::no_function;               \
  }()

/// MPI_`name`, which takes `parameters`: on a window `win` of ours the rest is its value, else the
/// MPI does it with `arguments`.
#define PENSTOCK_WINDOW_CALL(name, parameters, arguments, ...)                           \
  PENSTOCK_EXPORT int MPI_##name parameters {                                            \
    if (::penstock::mpi::PoolWindow* const window = ::penstock::mpi::pool_window(win)) { \
      const ::penstock::mpi::Entered entered(*window);                                   \
      return __VA_ARGS__;                                                                \
    }                                                                                    \
    const void* caller = __builtin_return_address(0);                                    \
    ::penstock::mpi::usable(caller);                                                     \
    return PENSTOCK_PASS(name, arguments);                                               \
  }                                                                                      \
  static_assert(true)
