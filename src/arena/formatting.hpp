// The arena's header: read, checked, and made on first use.
#pragma once

#include <cstdint>
#include <optional>

#include "arena/geometry.hpp"
#include "arena/region.hpp"
#include "base/status.hpp"

namespace penstock::arena {

struct Formatted {
  Geometry geometry;
  std::uint64_t key = 0;  ///< key of all checksums behind the header
};

/// The arena's place, from the checked superblock.
struct Placement {
  std::uint64_t pool_id = 0, arena_offset = 0, arena_bytes = 0;
};

/// Reads the header. Returns nullopt if the arena is not formatted. Errors: wrong_format (another
/// layout version, or damaged).
Result<std::optional<Formatted>> read_format(const Region& region, const Placement& placement);
/// Formats the arena, under the pool's lock. Publishes the header last: a crash before it leaves
/// the arena unformatted.
Result<Formatted> format(const Region& region, const Placement& placement);

}  // namespace penstock::arena
