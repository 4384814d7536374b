// The units of which flagged blocks consist (flagged_program.hpp). A GPU stores a unit by one
// instruction. Each half has data and the flag of the call, so that a reader needs no doorbell and
// no fence, even if the halves arrive one by one. Also compiled for GPUs.
#pragma once

#include <cstdint>

namespace penstock::coll {

inline constexpr std::uint32_t unit_bytes = 16, unit_payload = 8;
/// Blocks of a rank, used in turn.
inline constexpr std::uint32_t flagged_blocks = 2;

constexpr std::uint64_t unit_half(std::uint32_t data, std::uint32_t flag) {
  return std::uint64_t{flag} << 32 | data;
}
constexpr std::uint32_t flag_in(std::uint64_t half) {
  return static_cast<std::uint32_t>(half >> 32);
}
/// Payload in a number of bytes: the last unit may have less.
constexpr std::uint32_t units_of(std::uint64_t payload) {
  return static_cast<std::uint32_t>((payload + unit_payload - 1) / unit_payload);
}

/// The flag of the `call`-th flagged call of a communicator, counted from 1. Never 0, which is the
/// flag of a unit that was cleared. Every 2^31st call has the same.
constexpr std::uint32_t flag_of(std::uint64_t call) {
  return static_cast<std::uint32_t>(call << 1) | 1;
}
/// Whether each rank clears its block before it writes there, so that no unit is older than 2^30
/// calls and a few. Two calls in a row, one for each block.
constexpr bool clears_block(std::uint64_t call) {
  constexpr std::uint64_t mask = (1u << 30) - 1;
  return (call & mask) > mask - flagged_blocks;
}

}  // namespace penstock::coll
