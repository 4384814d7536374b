// Which part (device) of a pool holds what a process makes for itself. Decided here alone, for
// channels, window segments, and whatever else lies whole on one part: docs/decisions/0033.
#pragma once

#include <cstdint>

namespace penstock::pool {

/// `seat`: a number of the process among those of its node, from 0 without gaps. So the processes
/// of a node differ by one at most in how many of them each part has, and nodes begin apart: one
/// process a node spreads as well. `n`: for things of one process that should lie apart.
constexpr std::uint32_t part_for(std::uint64_t seat, std::uint32_t node, std::uint64_t n,
                                 std::uint32_t parts) {
  return parts < 2 ? 0 : static_cast<std::uint32_t>((seat + node + n) % parts);
}

}  // namespace penstock::pool
