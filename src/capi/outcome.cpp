#include "capi/outcome.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::capi {

namespace {

/// The message of the last failed call. A plain array, since exit handlers make calls too.
thread_local char last_error[4096];

}  // namespace

penstock_status_t status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return PENSTOCK_INVALID_ARGUMENT;
    case ErrorCode::not_found:
      return PENSTOCK_NOT_FOUND;
    case ErrorCode::already_exists:
      return PENSTOCK_ALREADY_EXISTS;
    case ErrorCode::permission:
      return PENSTOCK_PERMISSION;
    case ErrorCode::wrong_format:
      return PENSTOCK_WRONG_FORMAT;
    case ErrorCode::mismatch:
      return PENSTOCK_MISMATCH;
    case ErrorCode::no_space:
      return PENSTOCK_NO_SPACE;
    case ErrorCode::no_slots:
      return PENSTOCK_NO_SLOTS;
    case ErrorCode::deadline:
      return PENSTOCK_DEADLINE;
    case ErrorCode::peer_dead:
      return PENSTOCK_PEER_DEAD;
    case ErrorCode::unavailable:
      return PENSTOCK_UNAVAILABLE;
    case ErrorCode::internal:
      return PENSTOCK_INTERNAL;
  }
  return PENSTOCK_INTERNAL;
}

penstock_status_t report(const Error& error) {
  return report(error.code, error.message.c_str());
}

penstock_status_t report(ErrorCode code, const char* message) {
  const std::size_t bytes = std::min(std::strlen(message), sizeof last_error - 1);
  std::memcpy(last_error, message, bytes);
  last_error[bytes] = '\0';
  return status_of(code);
}

}  // namespace penstock::capi

using namespace penstock;

extern "C" {

const char* penstock_version(void) {
  return PENSTOCK_VERSION_TEXT;
}

const char* penstock_last_error(void) {
  return capi::last_error;
}

const char* penstock_status_name(int32_t status) {
  constexpr ErrorCode codes[] = {
      ErrorCode::invalid_argument, ErrorCode::not_found,    ErrorCode::already_exists,
      ErrorCode::permission,       ErrorCode::wrong_format, ErrorCode::mismatch,
      ErrorCode::no_space,         ErrorCode::no_slots,     ErrorCode::deadline,
      ErrorCode::peer_dead,        ErrorCode::unavailable,  ErrorCode::internal};
  if (status == PENSTOCK_OK) return "ok";
  for (const ErrorCode code : codes) {
    if (capi::status_of(code) == status) return code_name(code);
  }
  return "unknown";
}

}  // extern "C"
