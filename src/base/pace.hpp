// How often a wait looks at the device: as often as it can for a millisecond, then the less often
// the more lines a look reads. A rack's waiting ranks would otherwise slow the device for those
// that work.
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
  /// Lines a second that looks read after the first millisecond, at most, unless an eighth of the
  /// time waited so far is over before.
  static constexpr std::uint64_t reads_a_second = 5000;
  static constexpr std::uint64_t brisk_ns = 1'000'000;
  /// No two looks lie further apart than this.
  static constexpr std::uint64_t longest_ns = 10'000'000;

  /// A new wait begins: something has come.
  void reset() {
    looks_ = 0;
    since_ns_ = next_ns_ = 0;
  }
  /// What is waited for takes so long yet: no look before.
  void not_before(std::uint64_t ns);
  /// True: look now. Reads no clock in the first millisecond.
  bool due() const { return next_ns_ == 0 || is_time(); }
  /// To be called after a look in vain, which has read `lines` of the device; 0 where loads are
  /// answered by caches. Such looks are always due.
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
  std::uint64_t since_ns_ = 0;  ///< 0: the clock was not read yet
  std::uint64_t next_ns_ = 0;   ///< 0: each look is due
};

}  // namespace penstock::base
