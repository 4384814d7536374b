// Exit statuses of commands.
#pragma once

#include "base/status.hpp"

namespace penstock::base {

/// Returns 2 if the command line or a variable is wrong in itself, 1 if the request cannot be met
/// on this machine.
constexpr int exit_status_of(ErrorCode code) {
  return code == ErrorCode::invalid_argument ? 2 : 1;
}

}  // namespace penstock::base
