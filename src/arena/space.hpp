// Object space: a chain of extents from extents_start to extents_end without gaps, each with a
// header line in front. First fit from a roving cursor; free neighbours are joined while walking.
// Space that the caches of some node may still write to stays in quarantine before it is free.
//
// Every change is committed by rewriting one header that is already in the chain; headers of parts
// split off are published before. The new header goes to a journal first, so that a CPU that cannot
// store a line whole leaves no half-written header behind when it dies.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "arena/geometry.hpp"
#include "arena/region.hpp"
#include "base/status.hpp"
#include "device/striping.hpp"
#include "pool/flush_table.hpp"

namespace penstock::arena {

/// Walks extents as they are, also without the lock: a change that another process makes meanwhile
/// shows as an error or as a step of the old chain, never as a step outside the arena.
class ExtentReader {
 public:
  ExtentReader(const Region& region, const Geometry& geometry, std::uint64_t key)
      : region_(region), geometry_(geometry), key_(key) {}

  /// Reads and checks the header at `offset`; nullopt if there is none. One serialized device
  /// access.
  std::optional<ExtentHeader> peek(std::uint64_t offset) const;
  /// The same, with an error if there is none: wrong_format, which names the offset and the command
  /// that fixes it.
  Result<ExtentHeader> read(std::uint64_t offset) const;
  Result<void> for_each(const std::function<void(const ExtentHeader&)>& visit) const;

 protected:
  Region region_;
  Geometry geometry_;
  std::uint64_t key_;
};

struct SpaceRequest {
  std::uint64_t bytes = 0;  ///< of the object
  std::uint64_t alignment = line_bytes;
  std::uint32_t slot = 0;
  Lifetime lifetime = Lifetime::pool;
  std::uint64_t owner = 0;
  /// A part on which the object must lie, within one stripe.
  struct OnPart {
    device::Striping striping;
    std::uint32_t part = 0;
  };
  std::optional<OnPart> on_part = {};
  /// How many headers the search looks at, at most.
  std::uint32_t max_headers = UINT32_MAX;
  /// Called before a range of the pool is used; only for pools that grow.
  std::function<Result<void>(std::uint64_t offset, std::uint64_t bytes)> reserve = {};
};

/// The owner and slot of one of several extents.
struct Tenant {
  std::uint32_t slot = 0;
  std::uint64_t owner = 0;
};

/// Changes object space. Lives while the pool's lock is held; used by one thread.
class Space : public ExtentReader {
 public:
  /// Formats object space as one free extent. Published and ordered on return.
  static void format(const Region& region, const Geometry& geometry, std::uint64_t key);
  /// Finishes what a dead process left half done.
  static Result<Space> begin(const Region& region, const Geometry& geometry, std::uint64_t key,
                             const pool::FlushTable& flushes);

  /// Marks an extent used under a new generation; the object's bytes lie behind its header. Errors:
  /// no_space (names the bytes needed and the largest free extent), wrong_format.
  Result<ExtentHeader> allocate(const SpaceRequest& request);
  /// The same for several extents, one behind the other in the free extent `in`: one rewrite
  /// allocates all of them or none. `request` describes each, except its tenant, and names no part.
  Result<std::vector<ExtentHeader>> allocate_row(const ExtentHeader& in,
                                                 const SpaceRequest& request,
                                                 const std::vector<Tenant>& tenants);
  /// Bytes from one extent of a row to the next, whose object is aligned as well.
  static std::uint64_t row_step(const SpaceRequest& request);
  /// Finds a free extent of at least `bytes` among the next `headers` from the cursor on.
  std::optional<ExtentHeader> find_free(std::uint64_t bytes, std::uint32_t headers) const;
  /// Gives a pending extent its slot.
  ExtentHeader assign(ExtentHeader extent, std::uint32_t slot);
  /// Rewrites the lifetime and the owner of a used extent.
  void change(const ExtentHeader& extent) { rewrite(extent); }
  /// Frees a used extent: joins it with the next one if that is free, or puts it into quarantine if
  /// a process has died since it was made.
  void free(const ExtentHeader& extent);
  /// Frees quarantined extents that every node has flushed.
  Result<void> end_quarantines();
  /// Bytes in quarantine that the last search met.
  std::uint64_t quarantined_bytes() const { return quarantined_bytes_; }

 private:
  Space(const Region& region, const Geometry& geometry, std::uint64_t key,
        std::optional<pool::FlushTable> flushes = std::nullopt)
      : ExtentReader(region, geometry, key), flushes_(flushes) {}

  Result<void> load_moving();
  void finish_journal();
  bool is_flushed(const ExtentHeader& quarantined);
  void release(const ExtentHeader& extent);
  void publish_moving(std::uint64_t cursor);
  void publish_new(ExtentHeader header) const;
  void rewrite(ExtentHeader header);
  Result<ExtentHeader> join_following(const ExtentHeader& extent);
  Result<std::optional<ExtentHeader>> search(std::uint64_t from, std::uint64_t to,
                                             const SpaceRequest& request, std::uint64_t needed,
                                             std::uint64_t& largest);
  Result<std::vector<ExtentHeader>> place(const ExtentHeader& free_extent,
                                          const SpaceRequest& request,
                                          const std::vector<Tenant>& tenants);

  std::optional<pool::FlushTable> flushes_;  ///< nullopt while formatting
  std::optional<pool::FlushTable::Times> times_;
  std::uint64_t ticks_ = 0;  ///< as last read
  std::uint64_t quarantined_bytes_ = 0;
  std::uint32_t headers_left_ = 0;  ///< how many headers a search may still look at
  std::uint64_t cursor_ = 0;
  std::uint64_t next_generation_ = 1;
};

}  // namespace penstock::arena
