// Allgather and broadcast that forward data within each node. Chunk 2 n holds round n of a rank's
// block. Chunk 2 n + 3 holds what it forwards of round n, and is read after the blocks of round n +
// 1. So each reader reads and releases a producer's chunks in the order of their numbers, as in
// two_shot. Allreduce is a two_shot whose results are forwarded (two_shot.cpp).
#include "base/format.hpp"
#include "schedule/hand_over.hpp"

namespace penstock::coll {

namespace {

std::vector<std::uint32_t> producers_of(const Problem& p) {
  if (p.collective == Collective::broadcast) return {p.root};
  std::vector<std::uint32_t> all;
  for (std::uint32_t rank = 0; rank < p.ranks; ++rank) all.push_back(rank);
  return all;
}

class TwoLevelMovement {
 public:
  TwoLevelMovement(const Problem& problem, const Plan& plan, const NodeMap& nodes)
      : p_(problem),
        hand_over_(problem, plan, nodes, producers_of(problem)),
        builder_(problem, plan, max_handed_part(problem, plan, nodes)) {}

  Result<Schedule> build() {
    if (builder_.part_bytes() == 0)
      return fail(ErrorCode::invalid_argument,
                  "a slot is too short to hand on a line of 64 bytes of each rank of other nodes");
    const std::uint64_t rounds = builder_.rounds_of(p_.output.empty() ? p_.input : p_.output);
    builder_.set_total_chunks(handed_chunk(rounds));
    move_own();
    if (rounds > 0) publish_own(0);
    for (std::uint64_t n = 0; n < rounds; ++n) {
      if (n + 1 < rounds) publish_own(n + 1);
      if (!takes()) continue;
      const PartOf parts = parts_of(n);
      hand_over_.read_parts(builder_, own_chunk(n), parts, -1);
      hand_over_.publish(builder_, handed_chunk(n), parts);
      if (n > 0) hand_over_.read_shares(builder_, handed_chunk(n - 1), parts_of(n - 1), -1);
    }
    if (takes() && rounds > 0)
      hand_over_.read_shares(builder_, handed_chunk(rounds - 1), parts_of(rounds - 1), -1);
    return builder_.finish();
  }

 private:
  static std::uint64_t own_chunk(std::uint64_t n) { return 2 * n; }
  static std::uint64_t handed_chunk(std::uint64_t n) { return 2 * n + 3; }
  bool takes() const { return p_.collective == Collective::allgather || p_.rank != p_.root; }
  bool gives() const { return p_.collective == Collective::allgather || p_.rank == p_.root; }

  void move_own() {
    if (p_.in_place || p_.collective != Collective::allgather) return;
    const Block& from = p_.input[0];
    builder_.move({Buffer::input, from.offset, from.bytes},
                  {Buffer::output, p_.output[p_.rank].offset, from.bytes});
  }
  void publish_own(std::uint64_t n) {
    if (!gives()) return;
    const Block part = builder_.part_of(p_.input[0], n);
    if (part.bytes == 0) return;
    builder_.publish(own_chunk(n), {{{Buffer::input, part.offset, part.bytes}, 0}},
                     hand_over_.consumers_of(part.bytes));
  }
  PartOf parts_of(std::uint64_t n) const {
    return [this, n](std::uint32_t producer) {
      const bool one = p_.collective == Collective::broadcast;
      const Block part = builder_.part_of(p_.output[one ? 0 : producer], n);
      return Span{Buffer::output, part.offset, part.bytes};
    };
  }

  const Problem& p_;
  HandOver hand_over_;
  Builder builder_;
};

}  // namespace

Result<Schedule> build_two_level(const Problem& problem, const Plan& plan, const NodeMap& nodes) {
  if (nodes.ranks() != problem.ranks)
    return fail(ErrorCode::invalid_argument,
                "{} needs the node of each of {} ranks, and {} are told", name_of(plan.algorithm),
                problem.ranks, nodes.ranks());
  if (problem.collective == Collective::barrier && plan.algorithm == Algorithm::leaders)
    return build_tree_barrier(problem, plan, nodes);
  switch (problem.collective) {
    case Collective::allgather:
    case Collective::broadcast:
      return TwoLevelMovement(problem, plan, nodes).build();
    case Collective::allreduce:
      return build_two_shot(problem, plan, nodes);
    default:
      return fail(
          ErrorCode::invalid_argument,
          "{} has no algorithm {}; allgather, broadcast and allreduce have, and barrier leaders",
          name_of(problem.collective), name_of(plan.algorithm));
  }
}

}  // namespace penstock::coll
