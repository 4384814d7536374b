// Allreduce and reduce in two passes: each rank reduces its share of the elements and publishes the
// result, which the others then read. For any number of ranks N, a rank writes S bytes and reads 2
// S (N - 1) / N. Chunk 2 n holds round n of the rank's input, with a part for each other rank.
// Chunk 2 n + 3 holds round n of its result, and is read after the input of round n + 1. So each
// reader reads and releases the chunks in the order of their numbers. If results are forwarded, the
// three streams have chunks 3 n, 3 n + 4 and 3 n + 8, each read one round after the one before.
#include <optional>

#include "base/format.hpp"
#include "schedule/hand_over.hpp"

namespace penstock::coll {

namespace {

std::optional<HandOver> hand_over_of(const Problem& p, const Plan& plan, const NodeMap& nodes) {
  if (plan.algorithm == Algorithm::two_shot) return std::nullopt;
  std::vector<std::uint32_t> all;
  for (std::uint32_t rank = 0; rank < p.ranks; ++rank) all.push_back(rank);
  return HandOver(p, plan, nodes, all);
}

class TwoShot {
 public:
  TwoShot(const Problem& problem, const Plan& plan, const NodeMap& nodes)
      : p_(problem),
        plan_(plan),
        hand_over_(hand_over_of(problem, plan, nodes)),
        builder_(problem, plan, hand_over_ ? max_handed_part(problem, plan, nodes) : ~0ull) {}

  Result<Schedule> build() {
    if (builder_.part_bytes() == 0)
      return fail(ErrorCode::invalid_argument,
                  "a slot of {} bytes holds no element of {} bytes for each of {} ranks",
                  plan_.slot_bytes, p_.element_bytes, p_.ranks);
    share_ = share_bytes();
    const std::uint64_t rounds = builder_.rounds_of(share_);
    builder_.set_total_chunks(hand_over_ ? handed_chunk(rounds) : result_chunk(rounds));
    if (!keeps_result()) builder_.set_scratch(share(p_.rank).bytes);
    const std::uint64_t lead = std::min<std::uint64_t>(hand_over_ ? 1 : plan_.slots / 4, rounds);
    for (std::uint64_t n = 0; n < lead; ++n) publish_input(n);
    for (std::uint64_t n = 0; n < rounds; ++n) {
      if (n + lead < rounds) publish_input(n + lead);
      publish_result(n, combine(n));
      if (n > 0) read_results(n - 1);
      if (n > 1) read_handed(n - 2);
    }
    if (rounds > 0) read_results(rounds - 1);
    if (rounds > 1) read_handed(rounds - 2);
    if (rounds > 0) read_handed(rounds - 1);
    return builder_.finish();
  }

 private:
  std::uint64_t input_chunk(std::uint64_t n) const { return hand_over_ ? 3 * n : 2 * n; }
  std::uint64_t result_chunk(std::uint64_t n) const { return hand_over_ ? 3 * n + 4 : 2 * n + 3; }
  static std::uint64_t handed_chunk(std::uint64_t n) { return 3 * n + 8; }
  bool keeps_result() const { return p_.collective == Collective::allreduce || p_.rank == p_.root; }
  bool reads_results(std::uint32_t rank) const {
    return p_.collective == Collective::allreduce || rank == p_.root;
  }
  /// Bytes of a share: whole elements, equally many for each rank except the last ones.
  std::uint64_t share_bytes() const {
    const std::uint64_t elements = p_.input[0].bytes / p_.element_bytes;
    return (elements + p_.ranks - 1) / p_.ranks * p_.element_bytes;
  }
  /// The elements of `rank`'s share in the block.
  Block share(std::uint32_t rank) const {
    const std::uint64_t all = p_.input[0].bytes, begin = std::min(all, rank * share_);
    return {begin, std::min(all - begin, share_)};
  }
  Block input_of(std::uint32_t rank, std::uint64_t n) const {
    Block part = builder_.part_of(share(rank), n);
    part.offset += p_.input[0].offset;
    return part;
  }
  /// Where this rank keeps the result of `rank`'s share.
  Span result_of(std::uint32_t rank, std::uint64_t n) const {
    const Block part = builder_.part_of(share(rank), n);
    if (keeps_result()) return {Buffer::output, p_.output[0].offset + part.offset, part.bytes};
    return {Buffer::scratch, part.offset - share(rank).offset, part.bytes};
  }

  void publish_input(std::uint64_t n) {
    std::vector<Part> parts;
    std::vector<std::uint32_t> consumers;
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k) {
      const std::uint32_t consumer = builder_.next(k);
      const Block part = input_of(consumer, n);
      if (part.bytes == 0) continue;
      consumers.push_back(consumer);
      parts.push_back(
          {{Buffer::input, part.offset, part.bytes}, builder_.at_of(p_.rank, consumer)});
    }
    builder_.publish(input_chunk(n), parts, consumers);
    if (!consumers.empty()) published_ = builder_.last_step();
  }
  /// Returns the index of the step; -1: this rank's share has no such round.
  std::int64_t combine(std::uint64_t n) {
    const Block own = input_of(p_.rank, n);
    if (own.bytes == 0) return -1;
    std::vector<Operand> operands;
    for (std::uint32_t producer = 0; producer < p_.ranks; ++producer) {
      if (producer == p_.rank)
        operands.push_back(
            {.own = true, .span = {Buffer::input, own.offset, own.bytes}, .rank = producer});
      else
        operands.push_back(
            {.rank = producer, .chunk = input_chunk(n), .at = builder_.at_of(producer, p_.rank)});
    }
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k)
      builder_.wait(builder_.previous(k), input_chunk(n));
    const std::int64_t step = builder_.combine(operands, result_of(p_.rank, n));
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k)
      builder_.release(builder_.previous(k), input_chunk(n));
    return step;
  }
  void publish_result(std::uint64_t n, std::int64_t combined) {
    if (combined < 0) return;
    std::vector<std::uint32_t> consumers;
    if (hand_over_) consumers = hand_over_->consumers_of(result_of(p_.rank, n).bytes);
    for (std::uint32_t k = 0; k + 1 < p_.ranks && !hand_over_; ++k)
      if (reads_results(builder_.next(k))) consumers.push_back(builder_.next(k));
    builder_.publish(result_chunk(n), {{result_of(p_.rank, n), 0}}, consumers, combined);
  }
  void read_results(std::uint64_t n) {
    if (!reads_results(p_.rank)) return;
    // In place, a result overwrites input that was published.
    const std::int64_t after = p_.in_place ? published_ : -1;
    if (hand_over_) {
      hand_over_->read_parts(builder_, result_chunk(n), results_of(n), after);
      return hand_over_->publish(builder_, handed_chunk(n), results_of(n));
    }
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k) {
      const std::uint32_t producer = builder_.previous(k);
      const Span to = result_of(producer, n);
      if (to.bytes == 0) continue;
      builder_.wait(producer, result_chunk(n));
      builder_.copy(producer, result_chunk(n), 0, to, after);
      builder_.release(producer, result_chunk(n));
    }
  }

  PartOf results_of(std::uint64_t n) const {
    return [this, n](std::uint32_t producer) { return result_of(producer, n); };
  }
  void read_handed(std::uint64_t n) {
    if (hand_over_)
      hand_over_->read_shares(builder_, handed_chunk(n), results_of(n),
                              p_.in_place ? published_ : -1);
  }

  const Problem& p_;
  const Plan& plan_;
  std::optional<HandOver> hand_over_;
  Builder builder_;
  std::uint64_t share_ = 0;
  std::int64_t published_ = -1;
};

}  // namespace

Result<Schedule> build_two_shot(const Problem& problem, const Plan& plan, const NodeMap& nodes) {
  if (problem.collective == Collective::allreduce || problem.collective == Collective::reduce)
    return TwoShot(problem, plan, nodes).build();
  return fail(ErrorCode::invalid_argument,
              "{} has no algorithm two_shot; allreduce and reduce have, and the others one_shot",
              name_of(problem.collective));
}

}  // namespace penstock::coll
