// The ten-level hash table of names: fixed capacity, one slot a bucket, a name in the first level
// whose bucket was free. Source: cMPI section 3.1; Broder and Karlin, "Multilevel adaptive
// hashing" (1990). Lookups examine all levels, so a removal needs no tombstone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "arena/geometry.hpp"
#include "arena/region.hpp"

namespace penstock::arena {

struct TableEntry {
  std::uint32_t index = 0;
  Slot slot{};
};

struct Lookup {
  std::optional<TableEntry> found;
  std::optional<std::uint32_t> first_free;  ///< set only if not found
};

/// Reading needs no lock; a slot half written by another counts as free. Writing needs the lock.
class NameTable {
 public:
  NameTable(const Region& region, const Geometry& geometry, std::uint64_t key)
      : region_(region), geometry_(geometry), key_(key) {}

  /// One serialized device access. What is found was checked against the geometry.
  Lookup find(std::string_view name) const;
  /// The slot at `index` if it is in the table and in use. One serialized device access.
  std::optional<Slot> read(std::uint32_t index) const;
  /// The same of several names: one serialized device access for all.
  std::vector<Lookup> find_each(const std::vector<std::string_view>& names) const;
  /// Makes the name visible: the name first, then, in order, the line that counts.
  void put(std::uint32_t index, std::string_view name, SlotEntry entry) const;
  struct Wanted {
    std::uint32_t index;
    std::string_view name;
    SlotEntry entry;
  };
  void put_each(const std::vector<Wanted>& wanted) const;
  void remove(std::uint32_t index) const;
  /// Every slot in use.
  void for_each(const std::function<void(const TableEntry&)>& visit) const;

 private:
  std::optional<Slot> load(std::uint32_t index) const;
  void invalidate(std::uint64_t hash) const;
  Lookup load_lookup(std::string_view name, std::uint64_t hash, bool& torn) const;

  Region region_;
  Geometry geometry_;
  std::uint64_t key_;
};

}  // namespace penstock::arena
