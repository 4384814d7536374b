// Converts PyTorch's timeouts to ours.
#pragma once

#include <algorithm>
#include <chrono>

namespace penstock::torch {

/// How long a call waits: at most 100 years, which fits every clock and a count of nanoseconds. A
/// longer timeout, or one that is not positive, means "for ever": PyTorch turns timedelta.max into
/// a negative number, and its kNoTimeout is 0. The caller must replace kUnsetTimeout first.
inline std::chrono::milliseconds limit_of(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds longest = std::chrono::hours(24) * 365 * 100;
  return timeout.count() <= 0 ? longest : std::min(timeout, longest);
}

}  // namespace penstock::torch
