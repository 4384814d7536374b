// The geometry of an arena: where each part lies. It follows from the arena's place, its size and
// the bucket count of the first level; nothing here was read from the pool unchecked.
#pragma once

#include <cstdint>

#include "arena/layout.hpp"
#include "arena/primes.hpp"
#include "base/status.hpp"

namespace penstock::arena {

struct Geometry {
  std::uint64_t arena_offset = 0, arena_bytes = 0;
  LevelSizes levels{};
  std::uint32_t slots = 0;
  std::uint64_t extents_start = 0, extents_end = 0;

  /// Chooses the geometry of an arena to be formatted: the table takes about 1/64 of it.
  static Result<Geometry> choose(std::uint64_t arena_offset, std::uint64_t arena_bytes);
  /// Computes it from the bucket count of the first level, which must be prime and in bounds.
  static Result<Geometry> with_level_one(std::uint64_t arena_offset, std::uint64_t arena_bytes,
                                         std::uint64_t level_one);

  std::uint64_t header_offset() const { return arena_offset; }
  std::uint64_t header_copy_offset() const { return arena_offset + 64; }
  std::uint64_t moving_offset() const { return arena_offset + 128; }
  std::uint64_t journal_offset() const { return arena_offset + 192; }
  std::uint64_t journal_image_offset() const { return arena_offset + 256; }
  std::uint64_t slot_offset(std::uint32_t slot) const {
    return arena_offset + control_bytes + std::uint64_t{slot} * sizeof(Slot);
  }
  /// The one slot of each level in which a name with this hash can be.
  std::array<std::uint32_t, table_levels> candidates(std::uint64_t hash) const;
  /// Could an extent header stand at `offset`?
  bool is_extent_place(std::uint64_t offset) const {
    return offset >= extents_start && offset < extents_end && offset % line_bytes == 0;
  }
  /// Do these object bytes lie in object space, behind a header?
  bool holds_object(std::uint64_t offset, std::uint64_t bytes) const {
    return bytes != 0 && offset % line_bytes == 0 && offset >= extents_start + line_bytes &&
           offset <= extents_end && bytes <= extents_end - offset;
  }
};

}  // namespace penstock::arena
