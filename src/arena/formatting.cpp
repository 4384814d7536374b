#include "arena/formatting.hpp"

#include "arena/space.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "pool/random_id.hpp"

namespace penstock::arena {

namespace {

// Headers that other pools left in the memory do not even look like one of this pool.
std::uint64_t magic_of(const Placement& placement) {
  return arena_magic ^ placement.pool_id;
}

std::uint64_t draw_salt() {
  return pool::random_id().value_or(0) ^ base::wall_ns();
}

bool is_whole(const ArenaHeader& header, const Placement& placement) {
  return header.magic == magic_of(placement) &&
         header.checksum == line_checksum(header, placement.pool_id);
}

Result<Formatted> check(const ArenaHeader& header, const Placement& placement) {
  if (header.version != arena_layout_version || header.levels != table_levels) {
    return fail(
        ErrorCode::wrong_format,
        "the arena has layout version {} with {} levels, this build needs {} with {}; use the "
        "Penstock that made the pool, or make it anew: penstock pool create SPEC --overwrite",
        header.version, header.levels, arena_layout_version, table_levels);
  }
  const auto geometry = PENSTOCK_TRY(
      Geometry::with_level_one(placement.arena_offset, placement.arena_bytes, header.level_one));
  if (header.arena_bytes != placement.arena_bytes || header.slots != geometry.slots ||
      header.extents_start != geometry.extents_start) {
    return fail(
        ErrorCode::wrong_format,
        "the arena's header says {} bytes, {} slots, objects from {}; the pool says {}, {}, {}; "
        "make the pool anew: penstock pool create SPEC --overwrite",
        header.arena_bytes, header.slots, header.extents_start, placement.arena_bytes,
        geometry.slots, geometry.extents_start);
  }
  return Formatted{geometry, hash_bytes(&header.salt, sizeof header.salt, placement.pool_id)};
}

}  // namespace

Result<std::optional<Formatted>> read_format(const Region& region, const Placement& placement) {
  ArenaHeader header, copy;
  region.invalidate(placement.arena_offset, 2 * line_bytes);
  region.load_fence();
  region.load_line(placement.arena_offset, &header);
  region.load_line(placement.arena_offset + line_bytes, &copy);
  const bool header_whole = is_whole(header, placement);
  if (!header_whole && !is_whole(copy, placement)) {
    // The copy is published first: a valid header without a copy is damage, not a crash.
    if (header.magic != magic_of(placement)) return std::nullopt;
    return fail(
        ErrorCode::wrong_format,
        "the arena's header at pool offset {} is damaged; make the pool anew: penstock pool "
        "create SPEC --size SIZE --overwrite",
        placement.arena_offset);
  }
  auto checked = PENSTOCK_TRY(check(header_whole ? header : copy, placement));
  return checked;
}

Result<Formatted> format(const Region& region, const Placement& placement) {
  const auto geometry =
      PENSTOCK_TRY(Geometry::choose(placement.arena_offset, placement.arena_bytes));
  ArenaHeader header{};
  header.magic = magic_of(placement);
  header.version = arena_layout_version;
  header.levels = table_levels;
  header.salt = draw_salt();
  header.arena_bytes = placement.arena_bytes;
  header.level_one = geometry.levels[0];
  header.slots = geometry.slots;
  header.extents_start = geometry.extents_start;
  header.checksum = line_checksum(header, placement.pool_id);
  const Formatted formatted{geometry,
                            hash_bytes(&header.salt, sizeof header.salt, placement.pool_id)};
  Space::format(region, formatted.geometry, formatted.key);
  region.publish_line(geometry.header_copy_offset(), &header);
  region.store_fence();
  region.publish_line(geometry.header_offset(), &header);
  return formatted;
}

}  // namespace penstock::arena
