// Code shared by the builders of schedules: the stream of this rank's chunks, and a reader's steps.
#pragma once

#include <algorithm>

#include "coherence/coherence.hpp"
#include "schedule/problem.hpp"

namespace penstock::coll {

/// A part of one chunk. One consumer reads it, or all of them do.
struct Part {
  Span from;
  std::uint64_t at = 0;  ///< offset in the chunk
};

/// Whether each rank reduces its share of the block.
inline bool reduces_shares(const Problem& problem, const Plan& plan) {
  return plan.algorithm != Algorithm::one_shot && is_reduction(problem.collective);
}
/// How chunks are cut into parts.
struct Cut {
  std::uint64_t stride = 0;  ///< bytes from the start of one part to the next
  std::uint64_t bytes = 0;   ///< longest part; 0: the slot is too short for one
};
/// `most`: another limit on the bytes of a part.
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
  /// Rounds that a block or the longest of several blocks needs.
  std::uint64_t rounds_of(std::uint64_t bytes) const {
    return (bytes + part_bytes_ - 1) / part_bytes_;
  }
  std::uint64_t rounds_of(const std::vector<Block>& blocks) const {
    std::uint64_t longest = 0;
    for (const Block& block : blocks) longest = std::max(longest, block.bytes);
    return rounds_of(longest);
  }
  /// The part of a block that is moved in round `round`.
  Block part_of(const Block& block, std::uint64_t round) const {
    const std::uint64_t begin = std::min(block.bytes, round * part_bytes_);
    return {block.offset + begin, std::min(block.bytes - begin, part_bytes_)};
  }
  /// The k-th of the other ranks in the order in which this rank writes for them:
  /// rank + 1, rank + 2, ...
  std::uint32_t next(std::uint32_t k) const { return (self() + 1 + k) % ranks(); }
  /// The k-th of the other ranks in the order in which this rank waits for them:
  /// rank - 1, rank - 2, ...
  std::uint32_t previous(std::uint32_t k) const { return (self() + ranks() - 1 - k) % ranks(); }
  /// Offset in `producer`'s chunk of the part for `consumer`, if each consumer has its own part.
  std::uint64_t at_of(std::uint32_t producer, std::uint32_t consumer) const {
    return part_stride_ * ((consumer + ranks() - producer - 1) % ranks());
  }

  /// Publishes chunk `chunk` of this rank for `consumers`. Does nothing if there are none.
  void publish(std::uint64_t chunk, const std::vector<Part>& parts,
               const std::vector<std::uint32_t>& consumers, std::int64_t after = -1);
  void wait(std::uint32_t producer, std::uint64_t chunk);
  void copy(std::uint32_t producer, std::uint64_t chunk, std::uint64_t at, Span to,
            std::int64_t after = -1);
  void move(Span from, Span to);
  /// `operands`: in the order of reduction. Returns the step's index.
  std::int64_t combine(const std::vector<Operand>& operands, Span to, std::int64_t after = -1);
  /// Adds no step if all ranks know that the producer will not use the slot again.
  void release(std::uint32_t producer, std::uint64_t chunk);

  /// Number of chunks in the longest stream of any rank, if all ranks know it.
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
  std::uint64_t total_chunks_ = 0;  ///< 0: some rank does not know it
  std::vector<Occupant> in_slots_;  ///< chunks that may not be released yet
  std::vector<bool> is_consumer_;
  Schedule schedule_;
};

/// Collectives that only move data: broadcast, gather, scatter, allgather, alltoall, and also
/// barrier.
Result<Schedule> build_movement(const Problem& problem, const Plan& plan);
/// Reduce, reduce_scatter, allreduce, scan, exscan. Each rank reads all operands of its result.
Result<Schedule> build_one_shot(const Problem& problem, const Plan& plan);
/// Allreduce and reduce as a reduce_scatter whose results are then published. With two_level and
/// leaders the results are also forwarded within each node.
Result<Schedule> build_two_shot(const Problem& problem, const Plan& plan, const NodeMap& nodes);
/// Allgather, broadcast and allreduce that forward data within each node.
Result<Schedule> build_two_level(const Problem& problem, const Plan& plan, const NodeMap& nodes);
/// `nodes` must name the node of each rank.
Schedule build_tree_barrier(const Problem& problem, const Plan& plan, const NodeMap& nodes);

}  // namespace penstock::coll
