// Object space: a chain of extents from extents_start to extents_end without gaps, each with a
// header line in front. First fit from a roving cursor; free neighbours are joined while walking.
// Space that the caches of some node may still write to stands in quarantine before it is free.
//
// Every change is committed by rewriting one header that the chain already runs through; headers
// of parts split off are published before. The rewritten line goes to a journal first, so that
// also a CPU that cannot store a line whole leaves no half header behind when it dies.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "arena/geometry.hpp"
#include "arena/region.hpp"
#include "base/status.hpp"
#include "pool/flush_table.hpp"
#include "pool/striping.hpp"

namespace penstock::arena {

/// Walks extents as they are, without the lock too: what another process changes meanwhile shows
/// as an error or as a step of the old chain, never as a step outside the arena.
class ExtentReader {
 public:
  ExtentReader(const Region& region, const Geometry& geometry, std::uint64_t key)
      : region_(region), geometry_(geometry), key_(key) {}

  /// The header at `offset`, checked. Nullopt: there is none. One serialized device access.
  std::optional<ExtentHeader> peek(std::uint64_t offset) const;
  /// Error: wrong_format, naming the offset and the command that fixes it.
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
  /// The object lies within a stripe of this part.
  struct OnPart {
    pool::Striping striping;
    std::uint32_t part = 0;
  };
  std::optional<OnPart> on_part = {};
  /// Headers that the search looks at, at most.
  std::uint32_t max_headers = UINT32_MAX;
  /// Asked before a range of the pool is used; of pools that grow.
  std::function<Result<void>(std::uint64_t offset, std::uint64_t bytes)> reserve = {};
};

/// Whose one of several extents is.
struct Tenant {
  std::uint32_t slot = 0;
  std::uint64_t owner = 0;
};

/// Changes object space. Lives while the pool's lock is held, by one thread.
class Space : public ExtentReader {
 public:
  /// Formats: one free extent. Published and ordered on return.
  static void format(const Region& region, const Geometry& geometry, std::uint64_t key);
  /// Finishes what a dead process left half done.
  static Result<Space> begin(const Region& region, const Geometry& geometry, std::uint64_t key,
                             const pool::FlushTable& flushes);

  /// Marks an extent used under a new generation; the object's bytes stand behind its header.
  /// Errors: no_space (names needed and largest free), wrong_format.
  Result<ExtentHeader> allocate(const SpaceRequest& request);
  /// The same for several, which lie one behind the other in `in`, a free extent: by one rewrite,
  /// all of them or none. `request` says what each is like, but for whose it is, and names no part.
  Result<std::vector<ExtentHeader>> allocate_row(const ExtentHeader& in,
                                                 const SpaceRequest& request,
                                                 const std::vector<Tenant>& tenants);
  /// Bytes from one extent of a row to the next, whose object is aligned as well.
  static std::uint64_t row_step(const SpaceRequest& request);
  /// A free extent of `bytes` at least among the next `headers` from the cursor on.
  std::optional<ExtentHeader> find_free(std::uint64_t bytes, std::uint32_t headers) const;
  /// Gives a pending extent its slot.
  ExtentHeader assign(ExtentHeader extent, std::uint32_t slot);
  /// Rewrites the lifetime and the owner of a used extent.
  void change(const ExtentHeader& extent) { rewrite(extent); }
  /// Gives back a used extent: joined with the next one if that is free, or into quarantine where
  /// a process has died since it was made.
  void free(const ExtentHeader& extent);
  /// Frees quarantined extents that every node has flushed.
  Result<void> end_quarantines();
  /// Bytes in quarantine that the last search came across.
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

  std::optional<pool::FlushTable> flushes_;  ///< not while formatting
  std::optional<pool::FlushTable::Times> times_;
  std::uint64_t ticks_ = 0;  ///< as last seen
  std::uint64_t quarantined_bytes_ = 0;
  std::uint32_t headers_left_ = 0;  ///< that a search may look at
  std::uint64_t cursor_ = 0;
  std::uint64_t next_generation_ = 1;
};

}  // namespace penstock::arena
