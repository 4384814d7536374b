// One-sided access to memory in the pool: the origin puts and gets by copying; the owner of the
// memory takes no part. A process that exposes memory keeps a table of regions in the pool; a
// process that knows the table's offset finds a region by its key. Lines, access counts and crash
// rules: docs/protocols/rma.md. Source: cMPI, section 3.2.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "arena/arena.hpp"

namespace penstock::rma {

enum Access : std::uint32_t {
  remote_read = 1,
  remote_write = 2,
  wants_notice = 4,  ///< peers report to the owner their direct reads and writes
  lasting_key = 8,   ///< the key will never mean another region
};

inline constexpr std::uint64_t not_in_pool = ~std::uint64_t{0};

/// Memory that peers may access.
struct Region {
  std::uint64_t key = 0;
  std::uint64_t base = 0;              ///< the address by which peers name its first byte
  std::uint64_t bytes = 0;             ///< at least 1
  std::uint64_t offset = not_in_pool;  ///< in the pool; not_in_pool: only its owner can reach it
  std::uint32_t access = 0;            ///< bits of Access

  bool in_pool() const { return offset != not_in_pool; }
  /// True if [address, address + length) lies in the region.
  bool holds(std::uint64_t address, std::uint64_t length) const {
    return address >= base && length <= bytes && address - base <= bytes - length;
  }
};

/// The owner's side. Not thread-safe.
class RegionTable {
 public:
  /// Makes an empty table. Errors: no_space.
  static Result<std::unique_ptr<RegionTable>> make(arena::Arena& arena);
  /// Peers that look a region up afterwards find no table.
  ~RegionTable();
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;

  /// The table's offset in the pool, by which peers find it; never 0.
  std::uint64_t place() const { return blocks_.front().offset; }
  /// Publishes the region: peers find it once this has returned. Errors: already_exists (the key),
  /// no_space.
  Result<void> add(const Region& region);
  /// Withdraws the region: later look-ups fail; a peer that found it before may still copy.
  void remove(std::uint64_t key);

 private:
  explicit RegionTable(arena::Arena& arena) : arena_(arena) {}
  Result<void> add_block();
  std::byte* free_line(std::uint64_t key);

  arena::Arena& arena_;
  std::uint64_t number_ = 0;  ///< the table's number in this process
  std::vector<arena::Object> blocks_;
  std::unordered_map<std::uint64_t, std::byte*> lines_;  ///< by key
  std::uint64_t serial_ = 0;
};

/// A peer's side: a cache of one table. Not thread-safe. put and get are hot paths: no system call,
/// no allocation, no lock once a key has been looked up.
class PeerRegions {
 public:
  PeerRegions(const pool::Pool& pool, std::uint64_t place) : pool_(pool), place_(place) {}

  std::uint64_t place() const { return place_; }
  /// Reads the current region. One device access if the key is known. Errors: not_found; peer_dead
  /// (the table is gone); wrong_format.
  Result<Region> find(std::uint64_t key);
  /// Returns the region as last found, to decide which side must copy; null if it was never looked
  /// up. Valid until the next call.
  const Region* remembered(std::uint64_t key) const {
    if (last_ != nullptr && last_->region.key == key) return &last_->region;
    const auto at = known_.find(key);
    return at != known_.end() ? &at->second.region : nullptr;
  }

  /// Copies `bytes` into the region, and publishes them: they are at the device on return. Writes
  /// only these bytes, so others may write next to them. Two device accesses; one under a lasting
  /// key, for which only every 64th put checks whether the owner has closed the region: until then
  /// it writes to that memory. Errors: as find; permission; invalid_argument (not within the
  /// region); unavailable (not in the pool: the owner must copy).
  Result<void> put(std::uint64_t key, std::uint64_t address, const void* from, std::uint64_t bytes);
  /// The first half of put(), for a caller with other work to do while the bytes travel: it may
  /// announce them to other processes only after store_fence() has returned.
  Result<void> begin_put(std::uint64_t key, std::uint64_t address, const void* from,
                         std::uint64_t bytes);
  void store_fence() const;
  /// Copies out the bytes that the device holds. One device access. Errors: as put.
  Result<void> get(std::uint64_t key, std::uint64_t address, void* to, std::uint64_t bytes);

 private:
  struct Known {
    Region region;
    std::uint64_t line = 0;  ///< offset in the pool
    std::uint64_t serial = 0;
    std::uint32_t puts = 0;
  };
  Result<Known*> known(std::uint64_t key);
  Result<Known> search(std::uint64_t key) const;
  bool still(const Known& known) const;
  void forget(std::uint64_t key) {
    known_.erase(key);
    last_ = nullptr;
  }
  Result<std::byte*> target(const Known& known, std::uint64_t address, std::uint64_t bytes,
                            Access access) const;

  const pool::Pool& pool_;
  std::uint64_t place_;
  std::unordered_map<std::uint64_t, Known> known_;
  Known* last_ = nullptr;
};

/// Publishes exactly these bytes, at any address in the pool. Not ordered: the caller calls
/// memory.store_fence().
void publish_range(const coherence::Memory& memory, void* to, const void* from,
                   std::uint64_t bytes);

}  // namespace penstock::rma
