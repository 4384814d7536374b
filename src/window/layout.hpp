// A window's words in the pool. Each rank has some of its own, and makes more when it first has to
// do with another rank:
//
//   a rank's words    line 0: directory  where this rank's words towards others lie (directory.hpp)
//                     line 1: bell       8 words: rank o rings word o mod 8 when it has a new want
//                     line 2: barrier    group/barrier.hpp
//                     line 3: lockers    who locks this rank's segment (lockers.hpp)
//   a pair's words    line 0: signals    what one rank (writer) tells another (reader)
//                     line 1: want       the ranges of the reader's segment that the writer reaches
//   a locker's words  line 0: its line of the lock that guards a segment for an epoch
//                     line 1: of that for one update
//
// All of them lie in memory of the rank that writes them, which zeroes them itself before it tells
// others where they are. Two lines of a rank's words are written by others. The bell: by
// publish_word, and no value repeats unless the rank has seen it, so that the value that remains
// differs from the one that it saw last. The lockers: under the pool's lock.
#pragma once

#include <cstdint>

#include "coherence/coherence.hpp"

namespace penstock::window {

inline constexpr std::uint64_t line_bytes = coherence::line_bytes;
inline constexpr std::uint32_t words_of_line = line_bytes / 8;
inline constexpr std::size_t max_ranges = 3;

/// Bytes of a segment, from its beginning; whole lines.
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
  std::uint32_t answer = 0;           ///< serial of the reader's last want that was served
  std::uint32_t piggyback_bytes = 0;  ///< a put that came with the last completion; 0: none
  std::uint64_t piggyback_at = 0;
  std::byte piggybacked[max_piggybacked] = {};
  std::uint32_t opens = 0;      ///< times the writer opened its segment to the reader
  std::uint32_t completes = 0;  ///< times it completed its accesses to the reader's segment
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

/// What a lock of a segment is held for: the line of a locker's words.
enum class Guarded : std::uint32_t { epoch, update };
inline constexpr std::uint64_t locker_bytes = 2 * line_bytes;

/// The ring value of a want; differs from every earlier one of that origin.
inline std::uint64_t ring_of(std::uint32_t origin, std::uint32_t serial) {
  return (std::uint64_t{origin} + 1) << 32 | serial;
}
/// A rank or, of no ring, a number that none has.
inline std::uint32_t ringer_of(std::uint64_t ring) {
  return static_cast<std::uint32_t>(ring >> 32) - 1;
}
inline std::uint32_t bell_word_of(std::uint32_t origin) {
  return origin % words_of_line;
}

/// Compares two counts that are near each other, as they wrap around.
inline bool later(std::uint32_t count, std::uint32_t than) {
  return static_cast<std::int32_t>(count - than) > 0;
}

}  // namespace penstock::window
