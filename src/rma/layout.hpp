// Pool layout of one-sided access, by cache line: each owner has a table of regions, to which it
// alone writes.
//
// A table is a chain of blocks. Each is an arena object, twice as long as the one before:
//
//   line 0          BlockHeader    written once, and again when the next block exists
//   lines 1..       RegionLine[capacity]
//
// A region is in one of the `window` lines to which its key hashes, in any of the blocks. Lines
// have checksums (pool/checksummed_line.hpp): a reader finds a whole line, or none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::rma {

inline constexpr std::uint64_t block_magic = 0x50454e5352474e31;  // "PENSRGN1"
inline constexpr std::uint64_t first_capacity = 64;
inline constexpr std::uint64_t window = 8;     ///< lines in which a key may be
inline constexpr std::size_t max_blocks = 24;  ///< limit of a valid chain

struct BlockHeader {
  std::uint64_t magic;
  std::uint64_t capacity;  ///< lines behind this one; a power of two, at least `window`
  std::uint64_t next;      ///< offset of the next block; 0: none
  std::uint64_t pad[4];
  std::uint64_t checksum;
};
static_assert(sizeof(BlockHeader) == 64);

struct RegionLine {
  std::uint64_t key;
  std::uint64_t base;
  std::uint64_t bytes;  ///< 0: no region
  std::uint64_t offset;
  std::uint64_t access;  ///< bits of Access
  std::uint64_t serial;  ///< distinguishes a region from an earlier one of the same key
  std::uint64_t pad;
  std::uint64_t checksum;
};
static_assert(sizeof(RegionLine) == 64);

/// First of the lines in which a key may be; the others follow, and wrap around the end.
constexpr std::uint64_t first_line(std::uint64_t key, std::uint64_t capacity) {
  std::uint64_t mixed = (key ^ key >> 32) * 0x9e3779b97f4a7c15ull;
  mixed ^= mixed >> 29;
  return mixed & (capacity - 1);
}
/// Pool offset of the `i`-th line in which the key may be.
constexpr std::uint64_t line_place(std::uint64_t block, std::uint64_t capacity, std::uint64_t key,
                                   std::uint64_t i) {
  return block + 64 + 64 * ((first_line(key, capacity) + i) & (capacity - 1));
}

}  // namespace penstock::rma
