// A few ranges that cover the bytes of another rank's segment that this rank has reached.
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
  /// Covers [from, to) of a segment of `bytes` from now on. A range that grows doubles, so an
  /// origin that walks through a segment need not ask at every step.
  void include(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);
  const std::array<Range, max_ranges>& all() const { return ranges_; }

 private:
  std::array<Range, max_ranges> ranges_{};
};

}  // namespace penstock::window
