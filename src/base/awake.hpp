// Measures the time in which this process was able to run. A process that was stopped (Ctrl-Z,
// scontrol suspend, a paused virtual machine) saw nothing of what others did meanwhile, so that
// time does not count in its waits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.hpp"

namespace penstock::base {

/// A clock that must be read regularly to advance: the time between two readings counts for at most
/// `max_ns`. Not thread-safe.
class AwakeClock {
 public:
  explicit AwakeClock(std::uint64_t max_ns) : max_ns_(max_ns), last_ns_(base::now_ns()) {}

  /// The awake time since construction.
  std::uint64_t now_ns() {
    const std::uint64_t now = base::now_ns();
    awake_ns_ += std::min(now - last_ns_, max_ns_);
    last_ns_ = now;
    return awake_ns_;
  }

 private:
  std::uint64_t max_ns_;
  std::uint64_t last_ns_;
  std::uint64_t awake_ns_ = 0;
};

}  // namespace penstock::base
