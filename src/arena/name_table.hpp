// The ten-level hash table of names: fixed capacity, one slot for each bucket. A name goes into the
// first level whose bucket is free. Lookups examine all levels, so a removal needs no tombstone.
// Source: cMPI, section 3.1; Broder and Karlin, "Multilevel adaptive hashing" (1990).
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
  std::optional<std::uint32_t> first_free;  ///< set only if the name was not found
};

/// Reading needs no lock; a slot half written by another process counts as free. Writing needs the
/// lock.
class NameTable {
 public:
  NameTable(const Region& region, const Geometry& geometry, std::uint64_t key)
      : region_(region), geometry_(geometry), key_(key) {}

  /// Finds a name and checks its entry against the geometry. One serialized device access.
  Lookup find(std::string_view name) const;
  /// Reads the slot at `index` if it is in the table and in use. One serialized device access.
  std::optional<Slot> read(std::uint32_t index) const;
  /// The same for several names: one serialized device access for all.
  std::vector<Lookup> find_each(const std::vector<std::string_view>& names) const;
  /// Publishes the name and then, in order, the entry that makes it visible.
  void put(std::uint32_t index, std::string_view name, SlotEntry entry) const;
  struct Wanted {
    std::uint32_t index;
    std::string_view name;
    SlotEntry entry;
  };
  void put_each(const std::vector<Wanted>& wanted) const;
  void remove(std::uint32_t index) const;
  /// Visits every slot in use.
  void for_each(const std::function<void(const TableEntry&)>& visit) const;

 private:
  std::optional<Slot> load(std::uint32_t index) const;
  void invalidate(std::uint64_t hash) const;
  Lookup load_lookup(std::string_view name, std::uint64_t hash) const;

  Region region_;
  Geometry geometry_;
  std::uint64_t key_;
};

}  // namespace penstock::arena
