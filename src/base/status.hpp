// Errors are values. Every fallible function returns Result<T>; no exception crosses a module.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace penstock {

enum class ErrorCode {
  invalid_argument,  ///< what the caller passed cannot be used
  not_found,         ///< no such pool, object, process or endpoint
  already_exists,    ///< the name is taken
  permission,        ///< the operating system refused
  wrong_format,      ///< not a pool, another layout version, or a damaged structure
  mismatch,          ///< two sides disagree (mode, job, pool id)
  no_space,          ///< the pool, /dev/shm or memory is full
  no_slots,          ///< a table of the pool is full
  deadline,          ///< a wait reached its deadline
  peer_dead,         ///< the process waited for has died
  unavailable,       ///< try again later
  internal,          ///< a defect of Penstock
};

/// An error and its message for people: what was found, what was needed, the command that fixes it.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

using tl::unexpected;

/// `return fail(ErrorCode::not_found, "pool {} is absent", spec)` needs <fmt/core.h>: see
/// base/format.hpp.
inline tl::unexpected<Error> make_error(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

/// The value of a result that has one.
template <class T>
T value_of(Result<T>&& result) {
  return *std::move(result);
}
inline void value_of(Result<void>&&) {}

/// Stable lower-case name of a code, such as "no_space".
const char* code_name(ErrorCode code);

}  // namespace penstock

/// Evaluates to the value of a Result, or returns its error from the function. An unnamed value is
/// destroyed at once: name the guard of a lock.
///   const auto pool = PENSTOCK_TRY(Pool::attach(options));
///   const auto guard = PENSTOCK_TRY(pool->lock());
///   PENSTOCK_TRY(space.end_quarantines());
#define PENSTOCK_TRY(...)                                                  \
  __extension__({                                                          \
    auto tried_ = (__VA_ARGS__);                                           \
    if (!tried_) return ::penstock::unexpected(std::move(tried_).error()); \
    ::penstock::value_of(std::move(tried_));                               \
  })
