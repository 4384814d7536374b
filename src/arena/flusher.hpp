// Flushes what is in quarantine out of this node's caches, and says so in the pool. Any process of
// the node can: caches are physically tagged, so it does not matter whose stores made a line dirty.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "arena/geometry.hpp"
#include "arena/region.hpp"
#include "pool/pool.hpp"

namespace penstock::arena {

/// Thread-safe. Takes no lock of the pool.
class Flusher {
 public:
  Flusher(const pool::Pool& pool, const Region& region, const Geometry& geometry, std::uint64_t key)
      : pool_(pool), region_(region), geometry_(geometry), key_(key) {}

  /// Bytes that one heartbeat may flush; the next one continues.
  void step();
  /// All of it.
  void finish();

 private:
  struct Range {
    std::uint64_t offset, bytes;
  };
  enum class Begun { yes, nothing_to_do, try_again };
  Begun begin();
  void record();
  /// True when nothing is left to do.
  bool advance(std::uint64_t max_bytes);

  const pool::Pool& pool_;
  Region region_;
  Geometry geometry_;
  std::uint64_t key_;

  std::mutex mutex_;
  std::vector<Range> ranges_;  ///< still to be flushed, for `ticks_`
  std::uint64_t ticks_ = 0;
  bool begun_ = false;
};

}  // namespace penstock::arena
