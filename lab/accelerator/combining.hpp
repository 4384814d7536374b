// Computes a chunk whose operands have all arrived: gathers them from the ranks' slots, reduces
// them in rank order by the arithmetic of src/schedule, and stores the result into a slot. So the
// bits are those that the ranks would have computed themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "offload/packet.hpp"
#include "pool/pool.hpp"
#include "schedule/reduction.hpp"

namespace penstock::accelerator {

/// Operands and results of a chunk. Segments lie `stride` bytes apart.
struct Chunk {
  const std::vector<offload::Command>* commands = nullptr;  ///< in rank order, of the same call
  std::uint64_t result = 0;                                 ///< offset of the slot of results
  std::uint64_t slot_bytes = 0;
};

struct Traffic {
  std::uint64_t gathered_bytes = 0;  ///< read from the ranks' slots
  std::uint64_t result_bytes = 0;    ///< written into the slots of results
  std::uint64_t reduced_bytes = 0;   ///< operands that went through the arithmetic
};

/// Why a chunk is impossible, found before anything is read; the same for all ranks' calls.
struct Refusal {
  offload::Status status = offload::Status::ok;
  std::uint32_t culprit = 0;
};

class Combining {
 public:
  explicit Combining(const pool::Pool& pool) : pool_(pool) {}

  /// Whether the chunk is possible: its type and operation are known, its operands and its result
  /// lie in the pool and fit a slot.
  Refusal check(const Chunk& chunk) const;
  /// Computes a chunk that passed check(). Returns the result if it fits a packet. Stores to the
  /// slot of results are not ordered.
  offload::Inlined compute(const Chunk& chunk);
  /// Copies the bytes of another slot, which has just been announced. Not ordered.
  void copy(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);

  const Traffic& traffic() const { return traffic_; }

 private:
  void reduce(const Chunk& chunk, std::uint64_t segments);
  void reduce_segment(const Chunk& chunk, std::uint64_t at, std::uint64_t bytes);
  offload::Inlined reduce_inlined(const Chunk& chunk);
  void move(std::uint64_t from, std::uint64_t to, std::uint64_t bytes);

  static constexpr std::size_t piece_bytes = 4096;
  const pool::Pool& pool_;
  Traffic traffic_;
  alignas(64) std::array<std::byte, coll::Reduction::accumulator_bytes> accumulator_;
  alignas(64) std::array<std::byte, piece_bytes> piece_;
};

/// Bytes from one segment to the next.
std::uint64_t stride_of(const offload::Command& command);
/// Bytes of a slot of results, for segments of `segment_bytes`.
std::uint64_t result_bytes_of(offload::Operation operation, std::uint64_t segment_bytes,
                              std::uint32_t ranks);
bool reduces(offload::Operation operation);
/// The command that says how much is moved: in a reduction all agree; in a broadcast it is the
/// root's, if that has arrived.
const offload::Command& leading(const std::vector<offload::Command>& commands);

}  // namespace penstock::accelerator
