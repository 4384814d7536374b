// Flushes what is in quarantine out of this node's caches, and says so in the pool. Any process of
// the node can: caches are physically tagged, so it does not matter whose stores made a line dirty.
// One does it for all at a time, the node's leader; the others look whether it goes on.
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

  /// What one heartbeat may do; the next one continues. Nothing while another process leads.
  void step();
  /// All of it, unless another process leads.
  void help();
  /// All of it, whoever leads.
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
  /// True when nothing is left to do.
  bool advance(std::uint64_t max_bytes);
  bool advance_for(std::uint64_t ns);

  const pool::Pool& pool_;
  Region region_;
  Geometry geometry_;
  std::uint64_t key_;

  std::mutex mutex_;
  std::vector<Range> ranges_;  ///< still to be flushed, for `ticks_`
  std::uint64_t ticks_ = 0;
  bool begun_ = false;
  pool::FlushTable::Flush seen_;  ///< of another leader
  int looks_ = 0;                 ///< since it last went on
};

}  // namespace penstock::arena
