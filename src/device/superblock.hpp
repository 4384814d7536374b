// The superblock at the beginning of each part: what the part belongs to, its size, and where the
// tables lie.
//
// A pool of one part is its file. In a pool of several parts, each part begins with its own
// superblock copy. Stripes follow at data_offset: stripe k of the pool is stripe k / parts of part
// k % parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/part.hpp"
#include "device/striping.hpp"

namespace penstock::device {

inline constexpr std::uint64_t layout_version = 7;
inline constexpr std::uint64_t min_pool_bytes = 16ull << 20;
inline constexpr std::uint32_t max_mappings = 1024;
inline constexpr std::uint64_t magic = 0x4b434f54534e4550u;  // "PENSTOCK" in memory

// clang-format off
//   line 0 | magic | layout version | header bytes | pool id | bytes | mode, parts |
//          | part, sparse | created |
//   line 1 | max processes, max nodes | part bytes | data offset | stripe bytes |
//          | renaming | attaching processes | registration | nodes |
//   line 2 | lock | states | details | leases | stats | activities | arena offset | arena bytes |
//   line 3 | flushes | verdicts | places | homes | blocks | 0 ... | checksum |
// clang-format on
struct alignas(64) Superblock {
  std::uint64_t magic = 0;
  std::uint64_t layout_version = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t pool_id = 0;
  std::uint64_t bytes = 0;
  std::uint32_t mode = 0;
  std::uint32_t part_count = 0;
  std::uint32_t part_index = 0;
  std::uint32_t sparse = 0;  ///< 1: the file takes space as objects are made
  std::uint64_t created_wall_ns = 0;

  std::uint32_t max_processes = 0;
  std::uint32_t max_nodes = 0;
  std::uint64_t part_bytes = 0;  ///< size of each part, including its own superblock
  std::uint64_t data_offset = 0;
  std::uint64_t stripe_bytes = 0;
  std::uint64_t renaming_offset = 0;
  std::uint64_t attaching_offset = 0;
  std::uint64_t registration_offset = 0;
  std::uint64_t nodes_offset = 0;

  std::uint64_t lock_offset = 0;
  std::uint64_t states_offset = 0;
  std::uint64_t details_offset = 0;
  std::uint64_t leases_offset = 0;
  std::uint64_t stats_offset = 0;
  std::uint64_t activities_offset = 0;
  std::uint64_t arena_offset = 0;
  std::uint64_t arena_bytes = 0;

  std::uint64_t flushes_offset = 0;
  std::uint64_t verdicts_offset = 0;
  std::uint64_t places_offset = 0;
  std::uint64_t homes_offset = 0;
  std::uint64_t blocks_offset = 0;
  std::uint64_t unused[2] = {};
  std::uint64_t checksum = 0;  ///< xxh64 of everything before it
};
static_assert(sizeof(Superblock) == 4 * 64);
static_assert(offsetof(Superblock, max_processes) == 64);
static_assert(offsetof(Superblock, lock_offset) == 128);
static_assert(offsetof(Superblock, checksum) == 248);

/// Where the bytes of a pool lie.
inline Striping striping_of(const Superblock& s) {
  return {s.bytes, s.stripe_bytes, s.part_count};
}

/// Computes the offsets of tables and arena from bytes, max_processes and max_nodes. Given by the
/// module that owns the tables: pool::lay_out().
using LayOut = Result<void> (*)(Superblock& superblock);

/// The superblock at the beginning of one part, unchecked; nullopt if the part is too short.
Result<std::optional<Superblock>> read_superblock(const OpenPart& part);
/// True if the superblock itself is of this layout and undamaged.
bool is_whole(const Superblock& superblock, LayOut lay_out);
/// Computes the checksum and publishes the superblock, the magic last.
Result<void> write_superblock(const OpenPart& part, const Superblock& contents);
/// Clears the magic, so that the part is no longer a pool.
Result<void> wipe_superblock(const OpenPart& part);

/// The superblock of the pool made of `parts`, in that order. Checks it for consistency with itself
/// and with the parts. Errors: wrong_format, mismatch.
Result<Superblock> check_superblocks(const std::vector<OpenPart>& parts, const std::string& spec,
                                     LayOut lay_out);

}  // namespace penstock::device
