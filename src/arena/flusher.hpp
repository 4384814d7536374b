// Flushes the lines in quarantine out of this node's caches, and records that in the pool. Any
// process of the node can: caches are physically tagged, so it does not matter whose stores made a
// line dirty. One process at a time, the node's leader, does it for all; the others watch whether
// it makes progress.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "arena/geometry.hpp"
#include "arena/region.hpp"
#include "pool/flush_table.hpp"
#include "pool/pool.hpp"

namespace penstock::arena {

/// Thread-safe. Takes no lock of the pool.
class Flusher {
 public:
  Flusher(const pool::Pool& pool, const Region& region, const Geometry& geometry, std::uint64_t key)
      : pool_(pool), region_(region), geometry_(geometry), key_(key) {}

  /// Does as much as one heartbeat may; the next one continues. Does nothing while another process
  /// leads.
  void step();
  /// Does all of it, unless another process leads.
  void help();
  /// Does all of it, even if another process leads.
  void finish();

 private:
  struct Range {
    std::uint64_t offset, bytes;
  };
  enum class Begun { yes, nothing_to_do, try_again };
  std::uint64_t ticks_to_flush() const;
  bool lead();
  bool is_led(const pool::FlushTable::Flush& flush);
  Begun begin();
  void record();
  /// Returns true when nothing is left to do.
  bool advance(std::uint64_t max_bytes);
  bool advance_for(std::uint64_t ns);

  const pool::Pool& pool_;
  Region region_;
  Geometry geometry_;
  std::uint64_t key_;

  std::mutex mutex_;
  std::vector<Range> ranges_;  ///< still to be flushed, to reach `ticks_`
  std::uint64_t ticks_ = 0;
  bool begun_ = false;
  pool::FlushTable::Flush seen_;  ///< the last look at another leader
  int looks_ = 0;                 ///< looks since that leader last made progress
};

}  // namespace penstock::arena
