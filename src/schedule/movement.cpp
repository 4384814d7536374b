// Broadcast, gather, scatter, allgather and alltoall. All data is written once, and read once by
// each rank that needs it. In round n a rank publishes its chunk n + lead and reads chunk n of the
// others. The lead gives the consumers time to release the slot. Source: CCCL, section 4 and Table
// 2; the order of reading: docs/protocols/collectives.md, "Rounds".
#include "base/format.hpp"
#include "schedule/builder.hpp"

namespace penstock::coll {

namespace {

class Movement {
 public:
  Movement(const Problem& problem, const Plan& plan)
      : p_(problem), plan_(plan), builder_(problem, plan) {}

  Result<Schedule> build() {
    if (builder_.part_bytes() == 0)
      return fail(ErrorCode::invalid_argument,
                  "a slot of {} bytes holds no line of 64 bytes for each of {} ranks",
                  plan_.slot_bytes, p_.ranks);
    if (p_.max_block_bytes) builder_.set_total_chunks(builder_.rounds_of(*p_.max_block_bytes));
    keep_what_is_overwritten();
    move_own();
    const std::uint64_t written = is_producer(p_.rank) ? builder_.rounds_of(p_.input) : 0;
    const std::uint64_t read = is_consumer(p_.rank) ? builder_.rounds_of(p_.output) : 0;
    plan_.variant == Variant::all ? overlap(written, read) : fill_and_drain(written, read);
    return builder_.finish();
  }

 private:
  /// Whether each consumer has its own part of a chunk.
  static bool own_parts(const Problem& p) { return spreads(p.collective) && p.ranks > 1; }
  bool is_producer(std::uint32_t rank) const {
    if (begins_at_root(p_.collective)) return rank == p_.root;
    return !ends_at_root(p_.collective) || rank != p_.root;
  }
  bool is_consumer(std::uint32_t rank) const {
    if (begins_at_root(p_.collective)) return rank != p_.root;
    return !ends_at_root(p_.collective) || rank == p_.root;
  }
  /// This rank's block for `consumer`. One block serves all if consumers have no blocks of their
  /// own.
  const Block& input_for(std::uint32_t consumer) const {
    return (kept_.empty() ? p_.input : kept_)[own_parts(p_) ? consumer : 0];
  }
  const Block& output_of(std::uint32_t producer) const {
    return p_.output[gathers(p_.collective) ? producer : 0];
  }

  /// In place, an alltoall would overwrite data that it has not published yet.
  void keep_what_is_overwritten() {
    if (p_.collective != Collective::alltoall || !p_.in_place) return;
    std::uint64_t bytes = 0;
    for (std::uint32_t rank = 0; rank < p_.ranks; ++rank) {
      const Block& block = p_.input[rank];
      kept_.push_back({bytes, block.bytes});
      if (rank == p_.rank) continue;
      builder_.move({Buffer::input, block.offset, block.bytes},
                    {Buffer::scratch, bytes, block.bytes});
      bytes += block.bytes;
    }
    builder_.set_scratch(bytes);
    source_ = Buffer::scratch;
    moved_ = builder_.last_step();
  }
  void move_own() {
    if (p_.in_place || p_.collective == Collective::broadcast) return;
    const bool takes = is_consumer(p_.rank) || p_.collective == Collective::scatter;
    const bool gives = is_producer(p_.rank) || p_.collective == Collective::gather;
    if (!takes || !gives || p_.input.empty() || p_.output.empty()) return;
    const Block& from = p_.input[p_.input.size() > 1 ? p_.rank : 0];
    const Block& to = p_.output[p_.output.size() > 1 ? p_.rank : 0];
    builder_.move({Buffer::input, from.offset, from.bytes},
                  {Buffer::output, to.offset, from.bytes});
  }

  void publish(std::uint64_t n) {
    parts_of_chunk_.clear();
    consumers_.clear();
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k) {
      const std::uint32_t consumer = builder_.next(k);
      const Block part = builder_.part_of(input_for(consumer), n);
      if (!is_consumer(consumer) || part.bytes == 0) continue;
      consumers_.push_back(consumer);
      if (own_parts(p_) || parts_of_chunk_.empty())
        parts_of_chunk_.push_back({{source_, part.offset, part.bytes},
                                   own_parts(p_) ? builder_.at_of(p_.rank, consumer) : 0});
    }
    builder_.publish(n, parts_of_chunk_, consumers_, moved_);
  }
  void overlap(std::uint64_t written, std::uint64_t read) {
    const std::uint64_t lead = plan_.slots / 2;
    for (std::uint64_t n = 0; n < std::min(lead, written); ++n) publish(n);
    for (std::uint64_t n = 0; n < std::max(written, read); ++n) {
      if (n + lead < written) publish(n + lead);
      if (n < read) read_round(n);
    }
  }
  /// Publishes as many chunks as there are slots, reads the same chunks of the others, and repeats.
  void fill_and_drain(std::uint64_t written, std::uint64_t read) {
    for (std::uint64_t n = 0; n < std::max(written, read); n += plan_.slots) {
      const std::uint64_t end = n + plan_.slots;
      for (std::uint64_t i = n; i < std::min(end, written); ++i) publish(i);
      if (n < read) wait_for_all(n, end);
      for (std::uint64_t i = n; i < std::min(end, read); ++i) read_round(i);
    }
  }
  /// Waits for the last of the chunks [begin, end) of each producer.
  void wait_for_all(std::uint64_t begin, std::uint64_t end) {
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k) {
      const std::uint32_t producer = builder_.previous(k);
      if (!is_producer(producer)) continue;
      const std::uint64_t chunks = std::min(end, builder_.rounds_of(output_of(producer).bytes));
      if (chunks > begin) builder_.wait(producer, chunks - 1);
    }
  }
  /// The chunk whose doorbell lets this rank read chunk n of `chunks`.
  std::uint64_t turn_of(std::uint64_t n, std::uint64_t chunks) const {
    if (!plan_.turns || p_.collective != Collective::broadcast) return n;
    // It is no further ahead than the slots reach, or the root would wait for this rank.
    const std::uint64_t behind_root = (p_.rank + p_.ranks - p_.root - 1) % p_.ranks;
    return std::min(n + behind_root % plan_.slots, chunks - 1);
  }
  void read_round(std::uint64_t n) {
    for (std::uint32_t k = 0; k + 1 < p_.ranks; ++k) {
      const std::uint32_t producer = builder_.previous(k);
      if (!is_producer(producer)) continue;
      const Block to = builder_.part_of(output_of(producer), n);
      if (to.bytes == 0) continue;
      builder_.wait(producer, turn_of(n, builder_.rounds_of(output_of(producer).bytes)));
      builder_.copy(producer, n, own_parts(p_) ? builder_.at_of(producer, p_.rank) : 0,
                    {Buffer::output, to.offset, to.bytes}, moved_);
      builder_.release(producer, n);
    }
  }

  const Problem& p_;
  const Plan& plan_;
  Builder builder_;
  Buffer source_ = Buffer::input;
  std::vector<Block> kept_;  ///< copy of the input in scratch memory; may be empty
  std::int64_t moved_ = -1;  ///< the step after which `source_` may be read
  std::vector<Part> parts_of_chunk_;
  std::vector<std::uint32_t> consumers_;
};

/// Each rank publishes one chunk without bytes.
Schedule build_barrier(const Problem& p, const Plan& plan) {
  Builder builder(p, plan);
  builder.set_total_chunks(1);
  std::vector<std::uint32_t> others;
  for (std::uint32_t k = 0; k + 1 < p.ranks; ++k) others.push_back(builder.next(k));
  builder.publish(0, {}, others);
  for (std::uint32_t k = 0; k + 1 < p.ranks; ++k) builder.wait(builder.previous(k), 0);
  return builder.finish();
}

}  // namespace

Result<Schedule> build_movement(const Problem& problem, const Plan& plan) {
  if (problem.collective == Collective::barrier) return build_barrier(problem, plan);
  return Movement(problem, plan).build();
}

}  // namespace penstock::coll
