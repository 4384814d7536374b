// The node of each rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace penstock::coll {

/// Empty, or with an entry for each rank. The same on all ranks.
class NodeMap {
 public:
  NodeMap() = default;
  /// `nodes`: by rank, any numbers.
  explicit NodeMap(std::vector<std::uint64_t> nodes) : nodes_(std::move(nodes)) {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      const auto before = nodes_.begin() + rank;
      if (std::find(nodes_.begin(), before, nodes_[rank]) != before) continue;
      const auto all = std::count(nodes_.begin(), nodes_.end(), nodes_[rank]);
      sizes_.push_back({nodes_[rank], static_cast<std::uint32_t>(all)});
      largest_ = std::max(largest_, sizes_.back().ranks);
    }
  }

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(nodes_.size()); }
  std::uint64_t node_of(std::uint32_t rank) const { return nodes_[rank]; }
  struct Node {
    std::uint64_t number = 0;
    std::uint32_t ranks = 0;
  };
  /// Each node once, in the order of their first ranks.
  const std::vector<Node>& all() const { return sizes_; }
  /// The most ranks on any node; 0: unknown.
  std::uint32_t largest() const { return largest_; }
  /// The ranks of its node, ascending, `rank` included.
  std::vector<std::uint32_t> mates_of(std::uint32_t rank) const {
    std::vector<std::uint32_t> mates;
    for (std::uint32_t other = 0; other < ranks(); ++other)
      if (nodes_[other] == nodes_[rank]) mates.push_back(other);
    return mates;
  }
  /// By rank: its place in an order that lists the first ranks of all nodes, then their second
  /// ranks, and so on. So ranks of one node are as far apart as possible. Empty: unknown.
  std::vector<std::uint32_t> places_across() const {
    std::map<std::uint64_t, std::uint32_t> seen;  // ranks of each node
    std::vector<std::uint32_t> seats(ranks()), order(ranks()), places(ranks());
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) seats[rank] = seen[nodes_[rank]]++;
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t one, std::uint32_t other) {
      return seats[one] < seats[other];
    });
    for (std::uint32_t place = 0; place < ranks(); ++place) places[order[place]] = place;
    return places;
  }

 private:
  std::vector<std::uint64_t> nodes_;
  std::vector<Node> sizes_;
  std::uint32_t largest_ = 0;
};

}  // namespace penstock::coll
