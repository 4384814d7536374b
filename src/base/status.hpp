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

/// What went wrong, for people: the value found, the value needed and the command that fixes it.
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

/// Stable lower-case name of a code, such as "no_space".
const char* code_name(ErrorCode code);

}  // namespace penstock
