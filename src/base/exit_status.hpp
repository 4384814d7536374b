// The exit status of commands.
#pragma once

#include "base/status.hpp"

namespace penstock::base {

/// The exit status of a command: 2 if its command line or a variable is wrong by itself; 1 if
/// the request cannot be met here.
constexpr int exit_status_of(ErrorCode code) {
  return code == ErrorCode::invalid_argument ? 2 : 1;
}

}  // namespace penstock::base
