#include "base/status.hpp"

namespace penstock {

const char* code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::already_exists:
      return "already_exists";
    case ErrorCode::permission:
      return "permission";
    case ErrorCode::wrong_format:
      return "wrong_format";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::no_space:
      return "no_space";
    case ErrorCode::no_slots:
      return "no_slots";
    case ErrorCode::deadline:
      return "deadline";
    case ErrorCode::peer_dead:
      return "peer_dead";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace penstock
