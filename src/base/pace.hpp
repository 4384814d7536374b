// How often a wait polls the device: as often as it can for a millisecond, then less often the more
// lines a look reads. Otherwise the waiting ranks of a rack would slow the device for those that
// work.
#pragma once

#include <cstdint>

namespace penstock::base {

/// The pace of one wait that polls. Not thread-safe.
///
///     Pace pace;
///     for (;; idle()) {
///       if (!pace.due()) continue;
///       if (look()) break;
///       pace.looked(3);  // it has read three lines of the device
///     }
class Pace {
 public:
  /// Lines a second that looks may read after the first millisecond. A look is also due when an
  /// eighth of the time waited so far has passed.
  static constexpr std::uint64_t reads_a_second = 5000;
  static constexpr std::uint64_t brisk_ns = 1'000'000;
  /// The longest time between two looks.
  static constexpr std::uint64_t longest_ns = 10'000'000;

  /// Begins a new wait: something has arrived.
  void reset() {
    looks_ = 0;
    since_ns_ = next_ns_ = 0;
  }
  /// The awaited event takes at least this long: no look is due before.
  void not_before(std::uint64_t ns);
  /// Returns true if a look is due. Reads no clock in the first millisecond.
  bool due() const { return next_ns_ == 0 || is_time(); }
  /// Call it after a look in vain. `lines`: how many it read from the device; 0 if caches answered
  /// the loads. Such looks are always due.
  void looked(std::uint64_t lines) {
    if (next_ns_ != 0 || ++looks_ % looks_to_clock == 0) set_next(lines);
  }
  /// True once the first millisecond is over.
  bool slow() const { return next_ns_ != 0; }

 private:
  static constexpr std::uint32_t looks_to_clock = 64;
  bool is_time() const;
  void set_next(std::uint64_t lines);

  std::uint32_t looks_ = 0;
  std::uint64_t since_ns_ = 0;  ///< 0: the clock was not yet read
  std::uint64_t next_ns_ = 0;   ///< 0: every look is due
};

}  // namespace penstock::base
