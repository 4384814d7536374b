// How a call goes through a switch that computes: the operation and the chunks. The same on all
// ranks that know the same about the call. Explained in docs/protocols/switch.md.
#pragma once

#include <cstdint>
#include <optional>

#include "offload/region.hpp"
#include "schedule/problem.hpp"
#include "schedule/reduction.hpp"
#include "schedule/schedule.hpp"

namespace penstock::coll {

struct SwitchPlan {
  offload::Operation operation = offload::Operation::barrier;
  std::uint8_t reduction = 0, datatype = 0;
  std::uint64_t element_bytes = 1;
  std::uint64_t block_bytes = 0;  ///< of the block that is cut into chunks
  std::uint64_t part_bytes = 0;   ///< of the block in each chunk
  std::uint64_t chunks = 1;
  std::uint32_t segments = 1;         ///< in an operand
  std::uint32_t result_segments = 1;  ///< in a result
  bool inlined = false;               ///< operand and result fit a packet
  bool operator==(const SwitchPlan&) const = default;

  bool reduces() const {
    return operation == offload::Operation::reduce_scatter ||
           operation == offload::Operation::all_reduce || operation == offload::Operation::reduce;
  }
  /// Bytes from one segment to the next, for parts of `bytes` bytes.
  static std::uint64_t stride(std::uint64_t bytes) {
    return (bytes + coherence::line_bytes - 1) / coherence::line_bytes * coherence::line_bytes;
  }
  /// Offset and length in the block of chunk `n`.
  Block part(std::uint64_t n) const {
    const std::uint64_t begin = n * part_bytes;
    return {begin, block_bytes - begin < part_bytes ? block_bytes - begin : part_bytes};
  }
};

/// Nullopt if a switch cannot do the call: another collective, blocks of several sizes or of a size
/// that some rank does not know, a slot that is too short, or a reduction that is not predefined.
std::optional<SwitchPlan> switch_plan_of(const Problem& problem, const Reduction* reduction,
                                         const offload::Shape& shape);

/// The call as steps, for a Mover and for time models. A rank publishes the operand of each chunk
/// in its slot, at most `window` chunks ahead, and copies the result from the switch's slot. The
/// switch counts as the rank after the last. A chunk is a segment of each lane. No data is inlined
/// in packets.
Schedule switch_schedule_of(const Problem& problem, const SwitchPlan& plan, std::uint32_t window);

}  // namespace penstock::coll
