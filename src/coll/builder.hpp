// What the builders of schedules share: the stream of this rank's chunks, and the steps of a
// reader.
#pragma once

#include <algorithm>

#include "coherence/coherence.hpp"
#include "coll/problem.hpp"

namespace penstock::coll {

/// A part of one chunk that one consumer, or all of them, read.
struct Part {
  Span from;
  std::uint64_t at = 0;  ///< in the chunk
};

/// Whether each rank reduces its share of the block.
inline bool reduces_shares(const Problem& problem, const Plan& plan) {
  return plan.algorithm != Algorithm::one_shot && problem.collective >= Collective::reduce;
}
/// How chunks are cut into parts.
struct Cut {
  std::uint64_t stride = 0;  ///< from part to part
  std::uint64_t bytes = 0;   ///< of a part at most; 0: the slot is too short for one
};
/// `most`: of a part, where something else limits it.
Cut cut_of(const Problem& problem, const Plan& plan, std::uint64_t most = ~0ull);

class Builder {
 public:
  Builder(const Problem& problem, const Plan& plan, std::uint64_t most = ~0ull)
      : problem_(problem), plan_(plan), is_consumer_(problem.ranks) {
    const Cut cut = cut_of(problem, plan, most);
    part_stride_ = cut.stride;
    part_bytes_ = cut.bytes;
  }

  std::uint32_t ranks() const { return problem_.ranks; }
  std::uint32_t self() const { return problem_.rank; }
  /// Bytes of a part of a chunk; 0: the slot is too short for one.
  std::uint64_t part_bytes() const { return part_bytes_; }
  /// Rounds that a block takes.
  std::uint64_t rounds_of(std::uint64_t bytes) const {
    return (bytes + part_bytes_ - 1) / part_bytes_;
  }
  std::uint64_t rounds_of(const std::vector<Block>& blocks) const {
    std::uint64_t longest = 0;
    for (const Block& block : blocks) longest = std::max(longest, block.bytes);
    return rounds_of(longest);
  }
  /// What is moved of a block in a round.
  Block part_of(const Block& block, std::uint64_t round) const {
    const std::uint64_t begin = std::min(block.bytes, round * part_bytes_);
    return {block.offset + begin, std::min(block.bytes - begin, part_bytes_)};
  }
  /// The k-th of the others in the order in which this rank writes for them: rank + 1, rank + 2,
  /// ...
  std::uint32_t next(std::uint32_t k) const { return (self() + 1 + k) % ranks(); }
  /// The k-th in the order in which it waits for them: rank - 1, rank - 2, ...
  std::uint32_t previous(std::uint32_t k) const { return (self() + ranks() - 1 - k) % ranks(); }
  /// Where in a producer's chunk the part for `consumer` begins, where each has its own.
  std::uint64_t at_of(std::uint32_t producer, std::uint32_t consumer) const {
    return part_stride_ * ((consumer + ranks() - producer - 1) % ranks());
  }

  /// This rank's chunk `chunk`, which `consumers` read; nothing where there are none.
  void publish(std::uint64_t chunk, const std::vector<Part>& parts,
               const std::vector<std::uint32_t>& consumers, std::int64_t after = -1);
  void wait(std::uint32_t producer, std::uint64_t chunk);
  void copy(std::uint32_t producer, std::uint64_t chunk, std::uint64_t at, Span to,
            std::int64_t after = -1);
  void move(Span from, Span to);
  /// `operands` in the order of reduction. Returns the step's number.
  std::int64_t combine(const std::vector<Operand>& operands, Span to, std::int64_t after = -1);
  /// Left out where all know that the producer has no further use for the slot.
  void release(std::uint32_t producer, std::uint64_t chunk);

  /// Chunks that the longest stream of any rank has, where all know it.
  void set_total_chunks(std::uint64_t chunks) { total_chunks_ = chunks; }
  void set_scratch(std::uint64_t bytes) { schedule_.scratch_bytes = bytes; }
  std::int64_t last_step() const { return static_cast<std::int64_t>(schedule_.steps.size()) - 1; }
  Schedule finish() {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      if (is_consumer_[rank]) schedule_.consumers.push_back(rank);
    }
    return std::move(schedule_);
  }

 private:
  struct Occupant {
    std::uint64_t chunk = 0;
    std::vector<std::uint32_t> consumers;
  };
  void await_slot(std::uint64_t chunk);
  void push(const Step& step) { schedule_.steps.push_back(step); }

  const Problem& problem_;
  const Plan& plan_;
  std::uint64_t part_bytes_ = 0, part_stride_ = 0;
  std::uint64_t total_chunks_ = 0;  ///< 0: not known to all
  std::vector<Occupant> in_slots_;  ///< chunks that are not known to be released
  std::vector<bool> is_consumer_;
  Schedule schedule_;
};

/// Collectives that only move: broadcast, gather, scatter, allgather, alltoall; and barrier.
Result<Schedule> build_movement(const Problem& problem, const Plan& plan);
/// Reduce, reduce_scatter, allreduce, scan, exscan; each rank reads what it reduces.
Result<Schedule> build_one_shot(const Problem& problem, const Plan& plan);
/// Allreduce and reduce by a reduce_scatter whose results are published too; under two_level and
/// leaders they are handed on within the nodes.
Result<Schedule> build_two_shot(const Problem& problem, const Plan& plan, const NodeMap& nodes);
/// Allgather, broadcast and allreduce with a hand-over within the nodes.
Result<Schedule> build_two_level(const Problem& problem, const Plan& plan, const NodeMap& nodes);
/// The node of each rank must be told.
Schedule build_tree_barrier(const Problem& problem, const Plan& plan, const NodeMap& nodes);

}  // namespace penstock::coll
