#include "abi/outcome.hpp"

namespace penstock::abi {

namespace {

std::string& last_error() {
  thread_local std::string words;
  return words;
}

}  // namespace

penstock_status_t status_of(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return PENSTOCK_INVALID_ARGUMENT;
    case Code::not_found:
      return PENSTOCK_NOT_FOUND;
    case Code::already_exists:
      return PENSTOCK_ALREADY_EXISTS;
    case Code::permission:
      return PENSTOCK_PERMISSION;
    case Code::wrong_format:
      return PENSTOCK_WRONG_FORMAT;
    case Code::mismatch:
      return PENSTOCK_MISMATCH;
    case Code::no_space:
      return PENSTOCK_NO_SPACE;
    case Code::no_slots:
      return PENSTOCK_NO_SLOTS;
    case Code::deadline:
      return PENSTOCK_DEADLINE;
    case Code::peer_dead:
      return PENSTOCK_PEER_DEAD;
    case Code::unavailable:
      return PENSTOCK_UNAVAILABLE;
    case Code::internal:
      return PENSTOCK_INTERNAL;
  }
  return PENSTOCK_INTERNAL;
}

penstock_status_t report(const Error& error) {
  return report(error.code, error.message.c_str());
}

penstock_status_t report(Code code, const char* message) {
  try {
    last_error() = message;
  } catch (const std::bad_alloc&) {
    last_error().clear();
  }
  return status_of(code);
}

}  // namespace penstock::abi

using namespace penstock;

extern "C" {

const char* penstock_version(void) {
  return PENSTOCK_VERSION_TEXT;
}

const char* penstock_last_error(void) {
  return abi::last_error().c_str();
}

const char* penstock_status_name(int32_t status) {
  constexpr Code codes[] = {Code::invalid_argument, Code::not_found,    Code::already_exists,
                            Code::permission,       Code::wrong_format, Code::mismatch,
                            Code::no_space,         Code::no_slots,     Code::deadline,
                            Code::peer_dead,        Code::unavailable,  Code::internal};
  if (status == PENSTOCK_OK) return "ok";
  for (const Code code : codes) {
    if (abi::status_of(code) == status) return code_name(code);
  }
  return "unknown";
}

}  // extern "C"
