// Chooses the part (device) of a pool for objects that a process makes for itself: channels, window
// segments, and any other object that lies whole on one part. docs/decisions/0033.
#pragma once

#include <cstdint>

namespace penstock::device {

/// `seat`: number of the process among those of its node, from 0 without gaps. So the numbers of a
/// node's processes per part differ by at most one. Nodes begin at different parts, so that one
/// process per node spreads as well. `n`: index among objects of one process on different parts.
constexpr std::uint32_t part_for(std::uint64_t seat, std::uint32_t node, std::uint64_t n,
                                 std::uint32_t parts) {
  return parts < 2 ? 0 : static_cast<std::uint32_t>((seat + node + n) % parts);
}

}  // namespace penstock::device
