// Keeps the own segment coherent for peers whose caches are not coherent with ours: when an epoch
// begins or ends, this rank writes its stores back and invalidates copies that others' puts made
// stale. Each line costs time, so this covers only ranges that peers access: a peer requests a
// range once, and this rank covers it at each of its epochs until the peer returns it (reach.hpp).
#pragma once

#include <map>
#include <vector>

#include "window/ranges.hpp"
#include "window/signals.hpp"

namespace penstock::window {

/// Segments up to this size are always covered as a whole, without requests.
inline constexpr std::uint64_t whole_segment_bytes = 4096;

class Exposure {
 public:
  Exposure(Context& context, Directory& directory, Signals& signals);

  /// Writes own stores back: they are at the device before publishes after a later store fence.
  void send();
  /// Invalidates: later loads find the earlier puts of others.
  void drop();
  /// The same for the ranges that peers access in epochs in which this rank takes no part.
  void publish_lock_ranges();
  void invalidate_lock_ranges();
  std::uint64_t lock_range_bytes() const;
  /// Stores a put that came with a peer's signal and writes it back. Call it after drop().
  void store(const Piggyback& put);
  bool may_get_requests() const { return may_get_requests_; }
  bool serve();
  /// drop() for the whole segment: when the window is opened and left.
  void drop_all();

 private:
  struct Asker {
    std::array<Range, max_ranges> ranges{};
    bool by_lock = false;
    std::uint32_t served = 0;  ///< serial of its last answered want
  };

  /// Collects the ranks whose rings are new; false: the bell has not changed.
  bool read_bell(std::vector<std::uint32_t>& ringers);
  bool read_want(std::uint32_t origin, Asker& asker);
  bool answer(const std::vector<std::uint32_t>& taken);
  std::vector<Range> union_of_wants(bool only_by_lock, std::vector<Range> all = {}) const;
  void send(const std::vector<Range>& ranges);
  void drop(const std::vector<Range>& ranges);

  Context& context_;
  Directory& directory_;
  Signals& signals_;
  bool may_get_requests_;
  std::vector<Range> reached_;             ///< by peers; offsets in the pool, sorted, disjoint
  std::vector<Range> lock_ranges_;         ///< the part that passive epochs access too
  bool has_returned_ranges_ = false;       ///< these may hold ranges that no peer accesses any more
  std::map<std::uint32_t, Asker> askers_;  ///< by rank: those that have sent a request
  std::uint64_t last_rings_[words_of_line] = {};  ///< last rings that were handled
  bool warned_full_ = false;
};

}  // namespace penstock::window
