// The border of the C interface: turns results and exceptions into a status and a message.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/status.hpp"
#include "penstock/penstock.h"

namespace penstock::capi {

penstock_status_t status_of(ErrorCode code);
/// Stores the message for penstock_last_error() of this thread.
penstock_status_t report(const Error& error);
penstock_status_t report(ErrorCode code, const char* message);

inline penstock_status_t report(penstock_status_t status) {
  return status;
}

template <class T>
penstock_status_t report(const Result<T>& result) {
  return result ? PENSTOCK_OK : report(result.error());
}

/// Runs `body`, which returns a penstock_status_t, and lets no exception through.
template <class Body>
penstock_status_t guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::no_space, "this process is out of memory");
  } catch (const std::exception& caught) {
    return report(ErrorCode::internal, caught.what());
  }
}

}  // namespace penstock::capi
