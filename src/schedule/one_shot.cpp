// Reductions in which each rank reads all operands of its result: reduce, reduce_scatter,
// allreduce, scan and exscan. Each operand is read once, in the combine itself. Source: CCCL,
// section 4 (its AllReduce is this one). Operands are in rank order.
#include "base/format.hpp"
#include "schedule/builder.hpp"

namespace penstock::coll {

namespace {

class OneShot {
 public:
  OneShot(const Problem& problem, const Plan& plan)
      : p_(problem), plan_(plan), builder_(problem, plan) {}

  Result<Schedule> build() {
    if (builder_.part_bytes() == 0)
      return fail(ErrorCode::invalid_argument,
                  "a slot of {} bytes holds no element of {} bytes for each of {} ranks",
                  plan_.slot_bytes, p_.element_bytes, p_.ranks);
    const std::uint64_t rounds = builder_.rounds_of(p_.input);
    builder_.set_total_chunks(rounds);
    plan_.variant == Variant::all ? overlap(rounds) : fill_and_drain(rounds);
    return builder_.finish();
  }

 private:
  bool scatters() const { return spreads(p_.collective); }
  /// Whether `consumer` needs the data of `producer`.
  bool reads(std::uint32_t consumer, std::uint32_t producer) const {
    return producer < operand_count(p_.collective, consumer, p_.root, p_.ranks);
  }
  const Block& input_for(std::uint32_t consumer) const {
    return p_.input[scatters() ? consumer : 0];
  }

  void publish(std::uint64_t n) {
    std::vector<Part> parts;
    std::vector<std::uint32_t> consumers;
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k) {
      const std::uint32_t consumer = builder_.next(k);
      const Block part = builder_.part_of(input_for(consumer), n);
      if (!reads(consumer, p_.rank) || part.bytes == 0) continue;
      consumers.push_back(consumer);
      if (scatters() || parts.empty())
        parts.push_back({{Buffer::input, part.offset, part.bytes},
                         scatters() ? builder_.at_of(p_.rank, consumer) : 0});
    }
    const std::int64_t before = builder_.last_step();
    builder_.publish(n, parts, consumers);
    if (builder_.last_step() != before) published_ = builder_.last_step();
  }
  void overlap(std::uint64_t rounds) {
    const std::uint64_t lead = std::min<std::uint64_t>(plan_.slots / 2, rounds);
    for (std::uint64_t n = 0; n < lead; ++n) publish(n);
    for (std::uint64_t n = 0; n < rounds; ++n) {
      if (n + lead < rounds) publish(n + lead);
      combine(n);
    }
  }
  /// Publishes as many chunks as there are slots, combines the same chunks of all ranks, and
  /// repeats.
  void fill_and_drain(std::uint64_t rounds) {
    for (std::uint64_t n = 0; n < rounds; n += plan_.slots) {
      const std::uint64_t end = std::min(n + plan_.slots, rounds);
      for (std::uint64_t i = n; i < end; ++i) publish(i);
      wait_for_all(n, end);
      for (std::uint64_t i = n; i < end; ++i) combine(i);
    }
  }
  /// Waits for the last of the chunks [begin, end) of each producer.
  void wait_for_all(std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t chunks = std::min(end, builder_.rounds_of(input_for(p_.rank).bytes));
    if (chunks <= begin || p_.output.empty()) return;
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k)
      if (reads(p_.rank, builder_.previous(k))) builder_.wait(builder_.previous(k), chunks - 1);
  }
  void combine(std::uint64_t n) {
    const Block own = builder_.part_of(input_for(p_.rank), n);
    if (own.bytes == 0) return;
    std::vector<Operand> operands;
    for (std::uint32_t producer = 0; producer < p_.ranks; ++producer) {
      if (!reads(p_.rank, producer)) continue;
      if (producer == p_.rank)
        operands.push_back(
            {.own = true, .span = {Buffer::input, own.offset, own.bytes}, .rank = producer});
      else
        operands.push_back({.rank = producer,
                            .chunk = n,
                            .at = scatters() ? builder_.at_of(producer, p_.rank) : 0});
    }
    if (operands.empty() || p_.output.empty()) return;
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k)
      if (reads(p_.rank, builder_.previous(k))) builder_.wait(builder_.previous(k), n);
    // In place, the result overwrites published data.
    const Block to = builder_.part_of({p_.output[0].offset, input_for(p_.rank).bytes}, n);
    builder_.combine(operands, {Buffer::output, to.offset, to.bytes},
                     p_.in_place ? published_ : -1);
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k)
      if (reads(p_.rank, builder_.previous(k))) builder_.release(builder_.previous(k), n);
  }

  const Problem& p_;
  const Plan& plan_;
  Builder builder_;
  std::int64_t published_ = -1;
};

}  // namespace

Result<Schedule> build_one_shot(const Problem& problem, const Plan& plan) {
  return OneShot(problem, plan).build();
}

}  // namespace penstock::coll
