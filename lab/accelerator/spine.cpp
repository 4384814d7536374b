// The spine: serves the leaves. If the leaves have reduced their ranks' operands, it reduces their
// results; otherwise it reads the operands of all ranks, in rank order, where the ranks have
// published them.
#include <algorithm>

#include "accelerator/served.hpp"

namespace penstock::accelerator {

namespace {

using offload::Command;
using offload::Completion;
using offload::Operation;
using offload::Status;

class Spine final : public Served {
 public:
  Spine(const pool::Pool& pool, const offload::Region& region) : Served(pool, region, 0) {}

  bool poll() override {
    if (failed_ || !knows_its_leaves()) return false;
    bool moved = arrivals_->look(done_ + region_.shape().window);
    give_up_if_damaged(*arrivals_, done_);
    for (; !failed_ && arrivals_->all(done_); moved = true) complete();
    return moved;
  }
  /// The leaves check their ranks, and the ranks check the leaves.
  void check_ranks() override {}
  Counts counts() const override {
    Counts counts = Served::counts();
    if (arrivals_) counts.commands = arrivals_->taken();
    return counts;
  }

 private:
  /// The leaves that a rank belongs to.
  bool knows_its_leaves() {
    if (arrivals_) return true;
    std::vector<std::uint32_t> rings;
    for (std::uint32_t rank = 0; rank < region_.shape().ranks; ++rank) {
      if (!member(rank)) return false;
      rings.push_back(region_.shape().ranks + members_[rank]->leaf);
    }
    std::sort(rings.begin(), rings.end());
    rings.erase(std::unique(rings.begin(), rings.end()), rings.end());
    arrivals_.emplace(pool_, region_, std::move(rings), region_.rings());
    return true;
  }

  /// A rank of the leaf, to name the leaf by.
  std::uint32_t rank_of(std::uint32_t ring) const {
    for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
      if (region_.shape().ranks + members_[rank]->leaf == ring) return rank;
    return 0;
  }

  /// Derives the packets of the ranks from those of their leaves.
  void spread_over_ranks() {
    const auto with_operand = std::find_if(
        commands_.begin(), commands_.end(),
        [](const Command& command) { return command.elements != 0 || command.operand.bytes != 0; });
    Command each = with_operand == commands_.end() ? commands_.front() : *with_operand;
    each.ranks = static_cast<std::uint16_t>(region_.shape().ranks);
    commands_.assign(region_.shape().ranks, each);
    for (std::uint32_t rank = 0; rank < region_.shape().ranks; ++rank) {
      commands_[rank].rank = static_cast<std::uint16_t>(rank);
      if (each.operand.bytes == 0) commands_[rank].source = region_.source(rank, done_);
    }
  }
  /// Partial results of leaves count as the operands of ranks with the leaves' numbers.
  void number_leaves() {
    for (std::uint32_t k = 0; k < commands_.size(); ++k) {
      commands_[k].rank = static_cast<std::uint16_t>(k);
      commands_[k].ranks = static_cast<std::uint16_t>(region_.shape().ranks);
    }
  }

  void complete() {
    arrivals_->commands(done_, commands_);
    const std::uint64_t result = region_.result(0, done_);
    Refusal refusal = refusal_of(commands_);
    if (refusal.status == Status::ok) {
      const bool partial = commands_.front().partial;
      partial ? number_leaves() : spread_over_ranks();
      refusal = Served::refusal_of(commands_, result);
      if (partial) refusal.culprit = rank_of(arrivals_->rings()[refusal.culprit]);
    }
    if (refusal.status != Status::ok) return fail(arrivals_->rings(), done_, refusal);
    answer(arrivals_->rings(), done_, compute(commands_, result));
    arrivals_->clear(done_++);
    ++counts_.chunks;
  }
  /// Whether the leaves report the same call.
  Refusal refusal_of(const std::vector<Command>& commands) const {
    for (const Command& command : commands)
      if (!same_call(commands.front(), command)) return {Status::mismatch, rank_of(command.rank)};
    return {};
  }

  std::optional<Arrivals> arrivals_;  ///< packets of the leaves, once all leaves are known
  std::uint64_t done_ = 0;            ///< the index of the next chunk
};

}  // namespace

std::unique_ptr<Served> serve_as_spine(const pool::Pool& pool, const offload::Region& region) {
  return std::make_unique<Spine>(pool, region);
}

}  // namespace penstock::accelerator
