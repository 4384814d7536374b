// What an Arena holds. Functions that say "under the lock" are called with the pool's lock held.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

#include "arena/formatting.hpp"
#include "arena/name_table.hpp"
#include "arena/space.hpp"

namespace penstock::arena {

struct Arena::Impl {
  Impl(pool::Pool& the_pool, const Region& the_region, const Formatted& formatted);

  Object to_object(const TableEntry& entry) const;
  Result<Space> space() const { return Space::begin(region, geometry, key); }

  // under the lock
  Result<Object> create(std::string_view name, std::uint64_t bytes, const CreateOptions& options);
  Result<std::uint32_t> free_slot_for(Space& space, std::string_view name);
  Result<ExtentHeader> allocate(Space& space, const SpaceRequest& request, std::string_view name);
  /// The name first, then its space.
  void erase(Space& space, const TableEntry& entry);
  /// Does the slot of a used extent refer back to it?
  bool is_reachable(const ExtentHeader& extent) const;
  /// Frees objects that died with their processes and space that a crash left without a name.
  /// `dry_run`: only counts.
  Result<Reclaimed> reclaim(Space& space, bool dry_run);
  Reclaimed free_owned(std::uint64_t token);

  void remember(const TableEntry& entry);
  void forget(std::uint64_t generation);
  void free_own();

  pool::Pool& pool;
  Region region;
  Geometry geometry;
  std::uint64_t key;
  NameTable table;
  pid_t pid;  ///< a forked child must not free what its parent made

  std::mutex own_mutex;
  std::map<std::uint64_t, std::uint32_t> own;  ///< generation -> slot, of process lifetime
};

}  // namespace penstock::arena
