// A few ranges that cover the accessed bytes of another rank's segment.
#pragma once

#include <array>

#include "window/layout.hpp"

namespace penstock::window {

class Ranges {
 public:
  bool cover(std::uint64_t from, std::uint64_t to) const {
    for (const Range& range : ranges_) {
      if (range.holds(from, to)) return true;
    }
    return false;
  }
  bool cover(const Ranges& others) const {
    for (const Range& each : others.ranges_) {
      if (each.bytes() != 0 && !cover(each.first, each.end)) return false;
    }
    return true;
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Range& range : ranges_) sum += range.bytes();
    return sum;
  }
  enum class Growth : std::uint8_t {
    exact,
    doubling  ///< a growing range doubles: a rank that walks through a segment sends few requests
  };
  /// From now on covers [from, to) of a segment of `bytes`.
  void include(std::uint64_t from, std::uint64_t to, std::uint64_t bytes,
               Growth growth = Growth::doubling);
  const std::array<Range, max_ranges>& all() const { return ranges_; }

 private:
  std::array<Range, max_ranges> ranges_{};
};

}  // namespace penstock::window
