// Macros that define intercepted functions, each as MPI_* and as PMPI_*.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "errors.hpp"
#include "fallback.hpp"
#include "pmpi.hpp"
#include "tools.hpp"
#include "windows.hpp"

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

namespace penstock::mpi {

/// True if we can serve calls of the MPI that `caller` uses; otherwise reports the reason once. It
/// reports nothing for a library without PMPI_ functions, a single-rank stub of an MPI.
inline bool usable(const void* caller) {
  const auto found = find_mpi(caller);
  if (!found && found.error().code != ErrorCode::not_found) refuse(found.error().message);
  return found.has_value();
}

/// The MPI's own function, also of an unknown MPI.
template <class Function>
Function original(Function known, const char* name, const void* caller) {
  if (known != nullptr) return known;
  void* symbol = mpi_symbol(name, caller);
  if (symbol == nullptr) symbol = next_symbol((std::string("MPI_") + name).c_str(), caller);
  return reinterpret_cast<Function>(symbol);
}

/// Runs `call` on the window. Calls the error handler only after unlocking the window, because the
/// handler may use or free it.
template <class Call>
int finish_on(PoolWindow& window, const Call& call) {
  return finish(window.handle, [&] {
    const Entered entered(window);
    return call();
  }());
}

inline bool fit_int(std::initializer_list<Count> counts) {
  return std::all_of(counts.begin(), counts.end(),
                     [](Count count) { return count <= std::numeric_limits<int>::max(); });
}

inline constexpr int no_function =
    16;  // about MPI_ERR_OTHER; returned if the process has no MPI at all

}  // namespace penstock::mpi

#define PENSTOCK_AND_CALLER(...) __VA_ARGS__ __VA_OPT__(, ) [[maybe_unused]] const void* caller
#define PENSTOCK_GIVE_CALLER(...) (__VA_ARGS__ __VA_OPT__(, ) __builtin_return_address(0))

/// Defines PMPI_`name` with the block that follows as its body; `caller` is the return address.
/// Also defines MPI_`name`, which does the same or calls a tool behind us (tools.hpp), and
/// serve_`name` for our own calls, which no tool sees. `parameters` and `arguments` are in
/// parentheses.
#define PENSTOCK_MPI(name, parameters, arguments)                                          \
  static int serve_##name(PENSTOCK_AND_CALLER parameters);                                 \
  PENSTOCK_EXPORT int PMPI_##name parameters {                                             \
    return serve_##name PENSTOCK_GIVE_CALLER arguments;                                    \
  }                                                                                        \
  PENSTOCK_EXPORT int MPI_##name parameters {                                              \
    static constinit ::penstock::mpi::Tool<int parameters> tool;                           \
    if (auto* const theirs = tool("MPI_" #name, __builtin_return_address(0))) [[unlikely]] \
      return theirs arguments;                                                             \
    return serve_##name PENSTOCK_GIVE_CALLER arguments;                                    \
  }                                                                                        \
  static int serve_##name(PENSTOCK_AND_CALLER parameters)

/// Passes the call on to the MPI. `arguments` are in parentheses. Uses `caller`.
#define PENSTOCK_PASS(name, arguments)                                                            \
  [&] {                                                                                           \
    const auto function = ::penstock::mpi::original(::penstock::mpi::pmpi().name, #name, caller); \
    return function != nullptr ? function arguments : ::penstock::mpi::no_function;               \
  }()

/// Like PENSTOCK_PASS, for a form with large counts. Programs find that form in this library even
/// if the MPI lacks it; then the call goes to `plain` as long as the counts fit.
#define PENSTOCK_PASS_LARGE(name, plain, arguments, ...)                                          \
  [&] {                                                                                           \
    const auto function = ::penstock::mpi::original(::penstock::mpi::pmpi().name, #name, caller); \
    if (function != nullptr) return function arguments;                                           \
    if (::penstock::mpi::pmpi().plain == nullptr) return ::penstock::mpi::no_function;            \
    if (!::penstock::mpi::fit_int({__VA_ARGS__})) return ::penstock::mpi::constants().err_count;  \
    return ::penstock::mpi::pmpi().plain arguments;                                               \
  }()

/// Defines MPI_`name` and PMPI_`name`. If `win` is one of our windows, they return the last
/// argument, an expression that reads only constant properties of the window; otherwise `pass`.
#define PENSTOCK_WINDOW_QUESTION_OR(name, parameters, arguments, pass, ...)              \
  PENSTOCK_MPI(name, parameters, arguments) {                                            \
    if (::penstock::mpi::PoolWindow* const window = ::penstock::mpi::pool_window(win)) { \
      return __VA_ARGS__;                                                                \
    }                                                                                    \
    ::penstock::mpi::usable(caller);                                                     \
    return pass;                                                                         \
  }                                                                                      \
  static_assert(true)

/// Like the above; the last argument operates on the window, and its value is the call's result.
#define PENSTOCK_WINDOW_CALL_OR(name, parameters, arguments, pass, ...) \
  PENSTOCK_WINDOW_QUESTION_OR(name, parameters, arguments, pass,        \
                              ::penstock::mpi::finish_on(*window, [&] { return __VA_ARGS__; }))

/// Like PENSTOCK_WINDOW_CALL_OR; for other windows, passes the call on with `arguments`.
#define PENSTOCK_WINDOW_CALL(name, parameters, arguments, ...) \
  PENSTOCK_WINDOW_CALL_OR(name, parameters, arguments, PENSTOCK_PASS(name, arguments), __VA_ARGS__)
