// What the switch computes of a chunk whose operands have all come: gathered from the ranks' slots,
// reduced in rank order by the arithmetic of src/coll, put into a slot of results. So the bits are
// those that the ranks would have found themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coll/reduction.hpp"
#include "offload/packet.hpp"
#include "pool/pool.hpp"

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

/// What makes a chunk impossible, before anything is read: of the call as all ranks have made it.
struct Refusal {
  offload::Status status = offload::Status::ok;
  std::uint32_t culprit = 0;
};

class Combining {
 public:
  explicit Combining(const pool::Pool& pool) : pool_(pool) {}

  /// Whether the chunk can be: its type and operation are known, its operands and its result lie in
  /// the pool and fit a slot.
  Refusal check(const Chunk& chunk) const;
  /// Of a chunk that passes check(). What is put into the slot of results is not ordered. Returns
  /// the result where it fits a packet.
  offload::Inlined compute(const Chunk& chunk);
  /// Bytes of another slot, which were just told of. Not ordered.
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
/// Of a slot of results, for segments of so many bytes.
std::uint64_t result_bytes_of(offload::Operation operation, std::uint64_t segment_bytes,
                              std::uint32_t ranks);
bool reduces(offload::Operation operation);
/// The command that says how much is moved: all of a reduction agree; of a broadcast the root's, if
/// it is there.
const offload::Command& leading(const std::vector<offload::Command>& commands);

}  // namespace penstock::accelerator
