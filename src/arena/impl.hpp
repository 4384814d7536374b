// The state of an Arena. Functions that say "under the lock" are called with the pool's lock held.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "arena/flusher.hpp"
#include "arena/formatting.hpp"
#include "arena/name_table.hpp"
#include "arena/space.hpp"
#include "pool/flush_table.hpp"
#include "pool/reclaim.hpp"

namespace penstock::arena {

/// A creation's request, checked.
struct Wanted {
  std::string_view name;
  std::uint64_t bytes;
  CreateOptions options;
};

/// A free slot for a name, or the suitable object that already has the name.
struct Claim {
  std::uint32_t slot = pending_slot;
  std::optional<Object> existing;
};

/// The entry of the name table for an object of `bytes`.
SlotEntry entry_of(const ExtentHeader& extent, std::uint64_t bytes);

/// Checks the name, the size and the options. Errors: invalid_argument.
Result<void> check_creation(const Wanted& wanted);

struct Arena::Impl {
  Impl(pool::Pool& the_pool, const Region& the_region, const Formatted& formatted);

  Object to_object(const TableEntry& entry) const;
  Result<Space> space() const {
    return Space::begin(region, geometry, key, pool.reclaim().flushes());
  }

  /// Waits for space in quarantine that living nodes will flush.
  Result<Object> create_when_flushed(const Wanted& wanted);
  Result<Object> create_now(const Wanted& wanted);
  Result<Object> create(const Wanted& wanted);
  /// For an object that takes long to zero: releases the lock meanwhile.
  Result<Object> create_large(const Wanted& wanted);

  Result<Object> adopt(const std::optional<TableEntry>& found, std::string_view name);
  Result<Object> create_shared(const Wanted& mine, const SharedWith& with);

  // under the lock
  /// Makes an object that has no name yet.
  Result<Object> make(Space& space, const Wanted& wanted);
  void make_shares(Space& space, const Wanted& mine, const SharedWith& with);
  Result<Claim> claim_name(Space& space, const Wanted& wanted);
  Result<ExtentHeader> allocate(Space& space, const Wanted& wanted, std::uint32_t slot);
  Object publish_name(const Wanted& wanted, const ExtentHeader& extent);
  /// Removes the name first, then frees its space.
  void erase(Space& space, const TableEntry& entry);
  /// Does the slot of a used extent refer back to the extent?
  bool is_reachable(const ExtentHeader& extent) const;
  void publish_zeros(const ExtentHeader& extent) const;
  /// Is the extent still used as it was when this process allocated it?
  bool is_still(const Space& space, const ExtentHeader& extent) const;
  /// Frees what creations left that could not get the lock again.
  void free_unnamed(Space& space);
  /// Frees objects of dead processes, and space that a crash left without a name. `dry_run`: only
  /// counts.
  Result<Reclaimed> reclaim(Space& space, bool dry_run);
  Reclaimed free_owned(const std::set<std::uint64_t>& tokens);
  /// As reclaim(), and takes the lock.
  Result<Reclaimed> reclaim_rest(bool dry_run);
  /// Gives blocks of free extents back to the file system that holds the pool's files.
  Result<std::uint64_t> shrink();
  /// Flushes this node's quarantined extents; those that wait for no other node are then free.
  Result<void> end_quarantines();
  /// Declares dead processes dead, and frees what they owned.
  Result<Reclaimed> reap(pool::Reclaim::Among among);

  /// Errors: unavailable if the pool keeps none of its contents.
  Result<void> check_durability(std::string_view name) const;
  /// On return tables, names, space and contents are at the device, or in the file.
  Result<void> sync_all() const;
  /// Reads the header of a named object. Errors: not_found.
  Result<ExtentHeader> extent_of(const ExtentReader& reader, const Object& object) const;

  void remember(std::uint64_t generation, std::uint32_t slot);
  void forget(std::uint64_t generation);
  void free_own();
  void publish_stores(std::uint64_t generation, std::uint32_t index) const;

  Quarantine quarantine() const;
  std::string quarantine_text(const Space& space) const;

  pool::Pool& pool;
  Region region;
  Geometry geometry;
  std::uint64_t key;
  NameTable table;
  Flusher flusher;

  std::mutex own_mutex;
  std::map<std::uint64_t, std::uint32_t> own;  ///< generation -> slot, of objects of lifetime
                                               ///< process
  std::vector<ExtentHeader> unnamed;           ///< zeroed, and not named because the lock was not
                                               ///< free
};

}  // namespace penstock::arena
