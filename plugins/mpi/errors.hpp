// Converts our errors to MPI errors.
#pragma once

#include <string>
#include <utility>

#include "abi.hpp"
#include "base/format.hpp"

namespace penstock::mpi {

/// An error with its MPI error class.
struct MpiError : Error {
  /// Chooses the class by the error's code.
  MpiError(Error error);  // NOLINT: converts errors of the modules below
  MpiError(int of_class, std::string text)
      : Error{ErrorCode::invalid_argument, std::move(text)}, mpi_class(of_class) {}

  int mpi_class;
};
template <class T>
using MpiResult = tl::expected<T, MpiError>;

}  // namespace penstock::mpi

// For PENSTOCK_TRY.
namespace penstock {
template <class T>
T value_of(mpi::MpiResult<T>&& result) {
  return *std::move(result);
}
inline void value_of(mpi::MpiResult<void>&&) {}
}  // namespace penstock

namespace penstock::mpi {

/// Makes an error: `return wrong(constants().err_rank, "rank {} of {}", rank, ranks)`.
template <class... Arguments>
tl::unexpected<MpiError> wrong(int mpi_class, fmt::format_string<Arguments...> text,
                               Arguments&&... arguments) {
  return tl::unexpected(
      MpiError(mpi_class, fmt::format(text, std::forward<Arguments>(arguments)...)));
}

/// Passes the error to the window's error handler (the default one ends the job with the message).
/// If the handler returns, returns the code for the program. The caller must not hold the window's
/// lock: the handler may use the window.
int raise(Handle win, const MpiError& error);
/// The status of a call on a window: MPI_SUCCESS, the MPI's status, or the code of raise().
template <class E>
int finish(Handle win, const tl::expected<void, E>& done) {
  return done ? constants().success : raise(win, done.error());
}
template <class E>
int finish(Handle win, const tl::expected<int, E>& done) {
  return done ? *done : raise(win, done.error());
}
/// Like raise(), for a call without a window: uses the communicator's error handler.
int raise_on_comm(Handle comm, const Error& error);
/// Returns the error's code; calls no handler.
int code_on_comm(const Error& error);

}  // namespace penstock::mpi
