// A barrier of many ranks as a tree: the ranks of a node gather at its first one, their leader,
// leaders meet among each other, and each lets its node go; so no rank looks at all others. Chunks
// without bytes, by their numbers: 0, what gathers; then the steps of the leaders; the last,
// what is let go. The same tree as the barrier of windows, docs/protocols/barrier.md.
#include <algorithm>
#include <set>

#include "coll/builder.hpp"

namespace penstock::coll {

namespace {

/// Doorbells that a rank waits for at each step, about.
constexpr std::uint32_t fan_in = 16;

class TreeBarrier {
 public:
  TreeBarrier(const Problem& problem, const Plan& plan, const NodeMap& nodes)
      : builder_(problem, plan), mates_(nodes.mates_of(problem.rank)) {
    std::set<std::uint64_t> led;
    for (std::uint32_t rank = 0; rank < problem.ranks; ++rank)
      if (led.insert(nodes.node_of(rank)).second) leaders_.push_back(rank);
    // Two steps at most: with what gathers and what is let go a rank has four slots' doorbells.
    const auto count = static_cast<std::uint32_t>(leaders_.size());
    steps_ = count == 1 ? 0 : count <= fan_in ? 1 : 2;
    radix_ = count;
    if (steps_ == 2)
      for (radix_ = 2; radix_ * radix_ < count;) ++radix_;
    builder_.set_total_chunks(last_chunk() + 1);
  }

  Schedule build() {
    gather();
    if (builder_.self() != mates_.front()) {
      builder_.wait(mates_.front(), last_chunk());
      return builder_.finish();
    }
    meet();
    builder_.publish(last_chunk(), {}, {mates_.begin() + 1, mates_.end()}, builder_.last_step());
    return builder_.finish();
  }

 private:
  std::uint64_t last_chunk() const { return 1ull + steps_; }

  /// A heap of the node's ranks: the parent of place p is at (p - 1) / fan_in.
  void gather() {
    const auto place = static_cast<std::size_t>(
        std::find(mates_.begin(), mates_.end(), builder_.self()) - mates_.begin());
    for (std::size_t below = fan_in * place + 1;
         below <= fan_in * place + fan_in && below < mates_.size(); ++below)
      builder_.wait(mates_[below], 0);
    if (place != 0) builder_.publish(0, {}, {mates_[(place - 1) / fan_in]}, builder_.last_step());
  }

  /// Before each step a leader knows of `known` leaders, itself and those before it in a ring; in
  /// the step it learns what others know, and first tells what it knows.
  void meet() {
    const auto count = leaders_.size();
    const auto place = static_cast<std::size_t>(
        std::find(leaders_.begin(), leaders_.end(), builder_.self()) - leaders_.begin());
    std::size_t known = 1;
    for (std::uint32_t step = 0; step < steps_; ++step, known *= radix_) {
      std::vector<std::uint32_t> behind, before;
      for (std::size_t far = known; far < known * radix_ && far < count; far += known) {
        behind.push_back(leaders_[(place + far) % count]);
        before.push_back(leaders_[(place + count - far) % count]);
      }
      std::sort(behind.begin(), behind.end());
      builder_.publish(1ull + step, {}, behind, builder_.last_step());
      for (const std::uint32_t leader : before) builder_.wait(leader, 1ull + step);
    }
  }

  Builder builder_;
  std::vector<std::uint32_t> mates_;    ///< the own node's ranks
  std::vector<std::uint32_t> leaders_;  ///< of all nodes, ascending
  std::uint32_t steps_ = 0, radix_ = 0;
};

}  // namespace

Schedule build_tree_barrier(const Problem& problem, const Plan& plan, const NodeMap& nodes) {
  return TreeBarrier(problem, plan, nodes).build();
}

}  // namespace penstock::coll
