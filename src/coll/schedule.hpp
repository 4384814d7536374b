// A collective as data: what one rank does, step by step. The host, the simulated nodes, the time
// model and GPUs run the same steps; no step assumes host memory or a host thread.
// Source: CCCL, section 4 ("Order", "Chunks", "Doorbells"); design page papers/4-collectives.md,
// 4.4 to 4.10. In words, with the counts: docs/protocols/collectives.md.
//
// Each rank publishes a stream of chunks, numbered from 0 in each collective. Chunk n lies in slot
// n mod `slots` of its producer and has one doorbell, which its producer alone writes. A consumer
// releases chunks; the producer uses a slot again when all consumers of its last chunk have.
#pragma once

#include <cstdint>
#include <vector>

#include "coll/node_map.hpp"

namespace penstock::coll {

/// Memory that a step names. A chunk's bytes are named by producer and number instead.
enum class Buffer : std::uint8_t {
  input,   ///< what the rank contributes
  output,  ///< where the rank's result goes; the same memory as `input` when in place
  scratch  ///< of the rank alone, Schedule::scratch_bytes
};

struct Span {
  Buffer buffer = Buffer::input;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

enum class StepKind : std::uint8_t {
  await_release,  ///< wait until `rank` has released chunk `chunk` of this rank
  publish,        ///< copy `span` into this rank's chunk `chunk`, at byte `at`
  ring,           ///< announce chunk `chunk` of this rank: all published before it is there
  wait,           ///< wait until `rank` has rung for its chunk `chunk`
  copy,           ///< copy from byte `at` of `rank`'s chunk `chunk` to `span`
  move,           ///< copy within this rank, from `from` to `span`
  combine,  ///< reduce `operands`, in their order, into `span`, its elements in ascending order
  release,  ///< this rank needs chunk `chunk` of `rank`, and those before it, no more
};

/// Of a combine: the span of this rank, or bytes of a chunk.
struct Operand {
  bool own = false;
  Span span = {};          ///< own: where
  std::uint32_t rank = 0;  ///< else: whose chunk; also the rank whose value it is
  std::uint64_t chunk = 0;
  std::uint64_t at = 0;
};

/// Streams of a rank, as CUDA has them. Steps of one lane run in order; the two overlap.
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
  std::uint32_t first_reader = 0;  ///< ring: they are a part of Schedule::readers
  std::int64_t after = -1;  ///< a step that must be done before, mostly of the other lane; -1: none
};

/// What one rank does. In the order of the list it needs no second thread, and never waits for
/// something that a rank which follows its own list does later.
struct Schedule {
  std::vector<Step> steps;
  std::vector<Operand> operands;
  std::vector<std::uint32_t> readers;  ///< of each ring, one after the other
  std::uint64_t scratch_bytes = 0;
  std::vector<std::uint32_t> consumers;  ///< ranks that read what this rank publishes, ascending
};

/// What the steps of one rank do to the pool, for the formulas in docs/protocols/collectives.md.
struct Traffic {
  std::uint64_t written_bytes = 0, read_bytes = 0, rings = 0, waits = 0, releases = 0;
  std::uint64_t remote_bytes = 0;  ///< of those read: published by ranks of other nodes
};
/// Of rank `rank` of `nodes`; without them nothing counts as remote.
Traffic traffic_of(const Schedule& schedule, const NodeMap& nodes = {}, std::uint32_t rank = 0);

}  // namespace penstock::coll
