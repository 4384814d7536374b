// The only way from PyTorch's timeouts to ours.
#pragma once

#include <algorithm>
#include <chrono>

namespace penstock::torch {

/// How long a call waits: at most 100 years, which can be added to any clock's time and counted in
/// nanoseconds. A longer timeout, or one that is not positive, means "for ever": PyTorch makes a
/// negative number of timedelta.max, and 0 is its kNoTimeout. kUnsetTimeout must be replaced
/// before.
inline std::chrono::milliseconds limit_of(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds longest = std::chrono::hours(24) * 365 * 100;
  return timeout.count() <= 0 ? longest : std::min(timeout, longest);
}

}  // namespace penstock::torch
