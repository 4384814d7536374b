// The own segment, as seen by peers whose caches are not coherent with ours: when an epoch begins
// or ends, this rank's stores are written back, and copies that others' puts made stale are
// dropped. That costs something for each line, so only the ranges are gone through that peers
// reach: they ask for them once, and this rank does it at each of its epochs from then on.
#pragma once

#include <vector>

#include "window/ranges.hpp"
#include "window/signals.hpp"

namespace penstock::window {

/// Segments up to this size are gone through as a whole, and no origin has to ask.
inline constexpr std::uint64_t whole_segment_bytes = 4096;

class Exposure {
 public:
  Exposure(Context& context, Signals& signals);

  /// Own stores are on their way, and there before whatever is told after an order.
  void send();
  /// Loads after it find what others had put before.
  void drop();
  /// The same of what peers reach in epochs in which this rank takes no part.
  void send_reached_by_lock();
  void drop_reached_by_lock();
  /// Puts of a peer that came with a signal; after drop(). On their way to the device as well.
  void store(const Piggyback& put);
  bool may_be_asked() const { return may_be_asked_; }
  bool serve();
  /// The same for the whole segment: at the beginning and at the end of the window's life.
  void drop_all();

 private:
  struct Want {
    std::array<Range, max_ranges> ranges{};
    bool by_lock = false;
  };

  bool take(std::uint32_t origin);
  std::vector<Range> united(bool only_by_lock) const;
  void send(const std::vector<Range>& ranges);
  void drop(const std::vector<Range>& ranges);

  Context& context_;
  Signals& signals_;
  bool may_be_asked_;
  std::vector<Range> reached_;          ///< by peers, sorted and apart; offsets in the pool
  std::vector<Range> reached_by_lock_;  ///< of these
  std::vector<Want> wants_;             ///< by origin
  std::vector<std::uint32_t> served_;   ///< serial of the last want, by origin
  std::uint64_t heard_ = 0;             ///< the bell's last ring
};

}  // namespace penstock::window
