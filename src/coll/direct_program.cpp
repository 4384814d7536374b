#include "coll/direct_program.hpp"

#include <array>

#include "coherence/site.hpp"

namespace penstock::coll {

namespace {

using coherence::Site;
using coherence::Weakening;
using Kind = DirectOp::Kind;

/// The list of ops. A proof may leave out one op, or its fence.
class Ops {
 public:
  void await_word(DirectOp op, Site site = Site::here()) {
    if (!coherence::weakened(Weakening::wait, site)) list.push_back(op);
  }
  void tell_word(DirectOp op, Site site = Site::here()) {
    op.fenced = !coherence::weakened(Weakening::store_fence, site);
    if (!coherence::weakened(Weakening::publish, site)) list.push_back(op);
  }
  void move(Lane lane, std::uint32_t step) {
    list.push_back({.kind = Kind::move, .lane = lane, .step = step});
  }
  void join(Lane lane) { list.push_back({.kind = Kind::join, .lane = lane}); }

  std::vector<DirectOp> list;
};

class Translator {
 public:
  Translator(const Schedule& schedule, const Layout& layout, std::uint32_t ranks,
             std::uint32_t self)
      : schedule_(schedule), layout_(layout), ranks_(ranks), self_(self) {}

  std::vector<DirectOp> translate() {
    // Uses the lane that publishes what is finished, because the stores of two lanes to one word
    // have no order.
    for_others([&](std::uint32_t rank) {
      ops_.tell_word({.kind = Kind::resume,
                      .lane = Lane::read,
                      .rank = rank,
                      .at = layout_.direct_finished(self_, rank)});
    });
    for (std::uint32_t i = 0; i < schedule_.steps.size(); ++i) add(schedule_.steps[i], i);
    // Both lanes are done. A rank that sees this word knows that this rank reads none of its data,
    // and waits for none of it.
    ops_.join(Lane::read);
    for_others([&](std::uint32_t rank) {
      ops_.tell_word({.kind = Kind::finish,
                      .lane = Lane::read,
                      .rank = rank,
                      .at = layout_.direct_finished(self_, rank)});
    });
    return std::move(ops_.list);
  }

 private:
  template <class Visit>
  void for_others(const Visit& visit) {
    for (std::uint32_t k = 1; k < ranks_; ++k) visit((self_ + k) % ranks_);
  }

  void add(const Step& step, std::uint32_t number) {
    const std::uint64_t low = chunk_word(0, step.chunk + 1);
    switch (step.kind) {
      case StepKind::wait:
        return ops_.await_word({.kind = Kind::await,
                                .lane = step.lane,
                                .rank = step.rank,
                                .low = low,
                                .at = layout_.direct_doorbell(step.rank, self_)});
      case StepKind::await_release:
        return ops_.await_word({.kind = Kind::await,
                                .lane = step.lane,
                                .rank = step.rank,
                                .low = low,
                                .at = layout_.direct_release(self_, step.rank)});
      case StepKind::release:
        return ops_.tell_word({.kind = Kind::signal,
                               .lane = step.lane,
                               .rank = step.rank,
                               .low = low,
                               .at = layout_.direct_release(step.rank, self_)});
      case StepKind::ring:
        join_before(step, number);
        return ring(step, low);
      default:
        if (step.kind == StepKind::publish) free_slots();
        join_before(step, number);
        return ops_.move(step.lane, number);
    }
  }

  void ring(const Step& step, std::uint64_t low) {
    for (std::uint32_t k = 0; k < step.readers; ++k) {
      const std::uint32_t reader = schedule_.readers[step.first_reader + k];
      ops_.tell_word({.kind = Kind::signal,
                      .lane = step.lane,
                      .rank = reader,
                      .low = low,
                      .at = layout_.direct_doorbell(self_, reader)});
    }
  }

  /// Adds the waits for free slots before the first publish.
  void free_slots() {
    if (free_) return;
    free_ = true;
    for_others([&](std::uint32_t rank) {
      ops_.await_word({.kind = Kind::free,
                       .lane = Lane::write,
                       .rank = rank,
                       .at = layout_.direct_finished(rank, self_)});
    });
  }

  void join_before(const Step& step, std::uint32_t number) {
    std::int64_t& joined = joined_[static_cast<std::size_t>(step.lane)];
    if (step.after < 0 || step.after <= joined) return;
    if (schedule_.steps[static_cast<std::size_t>(step.after)].lane == step.lane) return;
    ops_.join(step.lane);
    joined = number;
  }

  const Schedule& schedule_;
  const Layout& layout_;
  const std::uint32_t ranks_, self_;
  Ops ops_;
  bool free_ = false;
  std::array<std::int64_t, 2> joined_{-1, -1};  ///< by lane: last step that waits for the other
};

}  // namespace

std::vector<DirectOp> direct_program_of(const Schedule& schedule, const Layout& layout,
                                        std::uint32_t ranks, std::uint32_t self) {
  return Translator(schedule, layout, ranks, self).translate();
}

}  // namespace penstock::coll
