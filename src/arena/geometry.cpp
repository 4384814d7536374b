#include "arena/geometry.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/format.hpp"

namespace penstock::arena {

namespace {

constexpr std::uint64_t table_share = 64;
constexpr std::uint64_t min_object_space = 64 << 10;

}  // namespace

Result<Geometry> Geometry::choose(std::uint64_t arena_offset, std::uint64_t arena_bytes) {
  const std::uint64_t capacity = arena_bytes / table_share / sizeof(Slot) / table_levels;
  const auto sizes = level_sizes(std::clamp(capacity, min_level_one, max_level_one));
  return with_level_one(arena_offset, arena_bytes, (*sizes)[0]);
}

Result<Geometry> Geometry::with_level_one(std::uint64_t arena_offset, std::uint64_t arena_bytes,
                                          std::uint64_t level_one) {
  if (level_one < min_level_one || level_one > max_level_one || !is_prime(level_one)) {
    return fail(ErrorCode::wrong_format,
                "the arena has {} buckets on its first level, not a prime in {}..{}", level_one,
                min_level_one, max_level_one);
  }
  const auto arena_end = base::checked_add(arena_offset, arena_bytes);
  if (arena_offset % line_bytes != 0 || !arena_end) {
    return fail(ErrorCode::wrong_format,
                "the arena at offset {} with {} bytes is not a place in a pool", arena_offset,
                arena_bytes);
  }
  Geometry geometry;
  geometry.arena_offset = arena_offset;
  geometry.arena_bytes = arena_bytes;
  geometry.levels = *level_sizes(level_one);
  for (const auto buckets : geometry.levels) geometry.slots += static_cast<std::uint32_t>(buckets);
  const std::uint64_t needed = control_bytes + std::uint64_t{geometry.slots} * sizeof(Slot) +
                               control_bytes + min_object_space;
  if (arena_bytes < needed) {
    return fail(ErrorCode::no_space, "the arena has {} bytes, at least {} are needed", arena_bytes,
                needed);
  }
  geometry.extents_start = base::align_up(geometry.slot_offset(geometry.slots), control_bytes);
  geometry.extents_end = *arena_end & ~(line_bytes - 1);
  return geometry;
}

std::array<std::uint32_t, table_levels> Geometry::candidates(std::uint64_t hash) const {
  std::array<std::uint32_t, table_levels> slots_of_hash{};
  std::uint64_t level_start = 0;
  for (std::uint32_t level = 0; level < table_levels; ++level) {
    slots_of_hash[level] = static_cast<std::uint32_t>(level_start + hash % levels[level]);
    level_start += levels[level];
  }
  return slots_of_hash;
}

}  // namespace penstock::arena
