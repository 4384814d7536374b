// A barrier of many ranks as a tree. The ranks of a node gather at its leader, the node's first
// rank. The leaders then meet, and each releases its node. So no rank polls all others. Chunks have
// no bytes: chunk 0 gathers, the next ones are the leaders' steps, and the last one releases.
// Windows use the same tree (docs/protocols/barrier.md).
#include <algorithm>
#include <set>

#include "schedule/builder.hpp"

namespace penstock::coll {

namespace {

/// About as many doorbells as a rank waits for in each step.
constexpr std::uint32_t fan_in = 16;

class TreeBarrier {
 public:
  TreeBarrier(const Problem& problem, const Plan& plan, const NodeMap& nodes)
      : builder_(problem, plan), mates_(nodes.mates_of(problem.rank)) {
    std::set<std::uint64_t> led;
    for (std::uint32_t rank = 0; rank < problem.ranks; ++rank)
      if (led.insert(nodes.node_of(rank)).second) leaders_.push_back(rank);
    // At most two steps: with gathering and releasing, a rank then uses the doorbells of four
    // slots.
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

  /// The node's ranks form a heap: the parent of place p is at (p - 1) / fan_in.
  void gather() {
    const auto place = static_cast<std::size_t>(
        std::find(mates_.begin(), mates_.end(), builder_.self()) - mates_.begin());
    for (std::size_t below = fan_in * place + 1;
         below <= fan_in * place + fan_in && below < mates_.size(); ++below)
      builder_.wait(mates_[below], 0);
    if (place != 0) builder_.publish(0, {}, {mates_[(place - 1) / fan_in]}, builder_.last_step());
  }

  /// Before each step a leader knows of `known` leaders: itself and those before it in a ring. In
  /// the step it publishes what it knows, and then learns what others know.
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
  std::vector<std::uint32_t> mates_;    ///< the ranks of this rank's node
  std::vector<std::uint32_t> leaders_;  ///< leaders of all nodes, ascending
  std::uint32_t steps_ = 0, radix_ = 0;
};

}  // namespace

Schedule build_tree_barrier(const Problem& problem, const Plan& plan, const NodeMap& nodes) {
  return TreeBarrier(problem, plan, nodes).build();
}

}  // namespace penstock::coll
