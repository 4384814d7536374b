// Which node each rank is on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace penstock::coll {

/// Empty, or with an entry for each rank; the same on all ranks.
class NodeMap {
 public:
  NodeMap() = default;
  /// `nodes`: by rank, any numbers.
  explicit NodeMap(std::vector<std::uint64_t> nodes) : nodes_(std::move(nodes)) {}

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(nodes_.size()); }
  std::uint64_t node_of(std::uint32_t rank) const { return nodes_[rank]; }
  /// The ranks of its node, ascending, `rank` included.
  std::vector<std::uint32_t> mates_of(std::uint32_t rank) const {
    std::vector<std::uint32_t> mates;
    for (std::uint32_t other = 0; other < ranks(); ++other)
      if (nodes_[other] == nodes_[rank]) mates.push_back(other);
    return mates;
  }

 private:
  std::vector<std::uint64_t> nodes_;
};

}  // namespace penstock::coll
