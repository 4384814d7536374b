// A collective as data: the steps of one rank. The host, the simulated nodes, the time model and
// GPUs run the same steps. No step assumes host memory or a host thread. Source: CCCL, section 4
// ("Order", "Chunks", "Doorbells"). Explained, with the counts, in docs/protocols/collectives.md.
//
// Each rank publishes a stream of chunks, numbered from 0 in each collective. Chunk n is in slot n
// mod `slots` of its producer, and has one doorbell that only the producer writes. Consumers
// release chunks. The producer uses a slot again when all consumers of its last chunk have released
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/node_map.hpp"

namespace penstock::coll {

/// Memory that a step names. A chunk is named by producer and number instead.
enum class Buffer : std::uint8_t {
  input,   ///< the rank's contribution
  output,  ///< where the rank's result goes; the same memory as `input` when in place
  scratch  ///< private to the rank, Schedule::scratch_bytes
};

struct Span {
  Buffer buffer = Buffer::input;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

enum class StepKind : std::uint8_t {
  await_release,  ///< wait until `rank` has released chunk `chunk` of this rank
  publish,        ///< copy `span` into this rank's chunk `chunk`, at byte `at`
  ring,     ///< ring the doorbell of chunk `chunk` of this rank: all published before it is there
  wait,     ///< wait until `rank` has rung for its chunk `chunk`
  copy,     ///< copy from byte `at` of `rank`'s chunk `chunk` to `span`
  move,     ///< copy within this rank, from `from` to `span`
  combine,  ///< reduce `operands`, in their order, into `span`, its elements in ascending order
  release,  ///< release chunk `chunk` of `rank`, and all before it: this rank needs them no more
};

/// An operand of a combine: a span of this rank, or bytes of a chunk.
struct Operand {
  bool own = false;
  Span span = {};          ///< own: its memory
  std::uint32_t rank = 0;  ///< else: the chunk's producer; also the rank whose value it is
  std::uint64_t chunk = 0;
  std::uint64_t at = 0;
};

/// Two lanes of a rank, like CUDA streams. Steps of one lane run in order; the lanes overlap.
enum class Lane : std::uint8_t { write, read };

struct Step {
  StepKind kind = StepKind::move;
  Lane lane = Lane::read;
  std::uint32_t rank = 0;
  std::uint64_t chunk = 0;
  std::uint64_t at = 0;
  Span span = {}, from = {};
  std::uint32_t first_operand = 0, operand_count = 0;  ///< combine: a part of Schedule::operands
  std::uint32_t readers = 0;                           ///< publish, ring: ranks that read the chunk
  std::uint32_t first_reader = 0;  ///< ring: its readers begin here in Schedule::readers
  std::int64_t after = -1;  ///< a step that must be done first, mostly of the other lane; -1: none
};

/// The steps of one rank. In list order, one thread can run them. If all ranks follow their own
/// lists, no step waits for something that a rank does only later.
struct Schedule {
  std::vector<Step> steps;
  std::vector<Operand> operands;
  std::vector<std::uint32_t> readers;  ///< the readers of all rings, one ring after the other
  std::uint64_t scratch_bytes = 0;
  std::vector<std::uint32_t> consumers;  ///< ranks that read what this rank publishes, ascending
};

/// How many operands of a combining step lie in the pool.
std::uint32_t operands_in_pool(const Schedule& schedule, const Step& step);

/// The work that one rank's steps cause in the pool, for the formulas in
/// docs/protocols/collectives.md.
struct Traffic {
  std::uint64_t written_bytes = 0, read_bytes = 0, rings = 0, waits = 0, releases = 0;
  std::uint64_t remote_bytes = 0;  ///< the part of read_bytes published by ranks of other nodes
};
/// `rank`: a rank of `nodes`. Without nodes, no read counts as remote.
Traffic traffic_of(const Schedule& schedule, const NodeMap& nodes = {}, std::uint32_t rank = 0);

}  // namespace penstock::coll
