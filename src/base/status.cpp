#include "penstock/status.hpp"

namespace penstock {

const char* code_name(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::not_found:
      return "not_found";
    case Code::already_exists:
      return "already_exists";
    case Code::permission:
      return "permission";
    case Code::wrong_format:
      return "wrong_format";
    case Code::mismatch:
      return "mismatch";
    case Code::no_space:
      return "no_space";
    case Code::no_slots:
      return "no_slots";
    case Code::deadline:
      return "deadline";
    case Code::peer_dead:
      return "peer_dead";
    case Code::unavailable:
      return "unavailable";
    case Code::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace penstock
