// A window's words in the pool. Each rank has its own words, and makes more on its first access to
// or from another rank:
//
//   a rank's words    line 0: directory  location of this rank's words towards others
//   (directory.hpp)
//                     line 1: bell       8 words: rank o rings word o mod 8 when it has a new want
//                     line 2: barrier    group/barrier.hpp
//                     line 3: lockers    the ranks that lock this rank's segment (lockers.hpp)
//   a pair's words    line 0: signals    from one rank (writer) to another (reader)
//                     line 1: want       the ranges of the reader's segment that the writer
//                     accesses
//   a locker's words  line 0: its line of the lock that guards a segment for an epoch
//                     line 1: its line of the lock that guards it for one update
//
// All of them lie in memory of the rank that writes them. The rank zeroes them before it publishes
// their location. Other ranks write two lines of a rank's words. The bell: by publish_word, with
// values that do not repeat before the rank has seen them, so that the remaining value differs from
// the last one seen. The lockers: under the pool's lock.
#pragma once

#include <cstdint>

#include "coherence/coherence.hpp"

namespace penstock::window {

inline constexpr std::uint64_t line_bytes = coherence::line_bytes;
inline constexpr std::uint32_t words_of_line = line_bytes / 8;
inline constexpr std::size_t max_ranges = 3;

/// A byte range of a segment, relative to its beginning; whole lines.
struct Range {
  std::uint64_t first = 0, end = 0;
  std::uint64_t bytes() const { return end - first; }
  bool holds(std::uint64_t from, std::uint64_t to) const { return from >= first && to <= end; }
};

struct WantLine {
  std::uint32_t serial;
  std::uint32_t by_lock;     ///< 1: also in passive epochs
  Range ranges[max_ranges];  ///< empty: unused
  std::uint64_t checksum;
};
static_assert(sizeof(WantLine) == line_bytes);

inline constexpr std::size_t max_piggybacked = 40;

/// The counts are in the last word, which arrives last and is loaded first: if a count is new, the
/// rest of the line is at least as new. Counts and serials wrap around.
struct SignalLine {
  std::uint32_t answer = 0;           ///< serial of the reader's last answered want
  std::uint32_t piggyback_bytes = 0;  ///< length of a put in the last completion; 0: none
  std::uint64_t piggyback_at = 0;
  std::byte piggybacked[max_piggybacked] = {};
  std::uint32_t opens = 0;      ///< how often the writer opened its segment to the reader
  std::uint32_t completes = 0;  ///< how often it completed its accesses to the reader's segment
};
static_assert(sizeof(SignalLine) == line_bytes);

/// Lines of a rank's words, from its Member::words on.
enum class RankLine : std::uint32_t { directory, bell, barrier, lockers, count };
inline constexpr std::uint64_t rank_words_bytes =
    static_cast<std::uint64_t>(RankLine::count) * line_bytes;
inline std::uint64_t place_of(RankLine line, std::uint64_t words) {
  return words + static_cast<std::uint64_t>(line) * line_bytes;
}

/// Lines of a pair's words.
inline constexpr std::uint64_t signal_at = 0, want_at = line_bytes, pair_bytes = 2 * line_bytes;

/// Purpose of a lock of a segment: index of the line in a locker's words.
enum class Guarded : std::uint32_t { epoch, update };
inline constexpr std::uint64_t locker_bytes = 2 * line_bytes;

/// The ring value of a want; differs from every earlier one of that origin.
inline std::uint64_t ring_of(std::uint32_t origin, std::uint32_t serial) {
  return (std::uint64_t{origin} + 1) << 32 | serial;
}
/// The rank that rang; a number that no rank has if it is not a ring.
inline std::uint32_t ringer_of(std::uint64_t ring) {
  return static_cast<std::uint32_t>(ring >> 32) - 1;
}
inline std::uint32_t bell_word_of(std::uint32_t origin) {
  return origin % words_of_line;
}

/// Compares two nearby counts modulo 2^32.
inline bool later(std::uint32_t count, std::uint32_t than) {
  return static_cast<std::int32_t>(count - than) > 0;
}

}  // namespace penstock::window
