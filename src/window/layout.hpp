// A window's words in the pool, for n ranks:
//
//   signals  n rows of n lines: line (reader, writer): the writer's signals to the reader
//   fence    n lines    a barrier
//   wants    n rows of n lines: line (t, o): the ranges of t's segment that o reaches
//   bells    n lines: line t: word 0, the last ring: an origin has a new want of t
//   epochs   n locks of n lines: lock t guards t's segment for an epoch
//   updates  n locks of n lines: lock t guards t's segment for one update
//
// Each line has one writer; signals and wants have one reader. A bell is the exception: all ranks
// that ask t ring it, by publish_word. No value repeats, so the value that remains differs from the
// one that t saw last.
#pragma once

#include <cstdint>

#include "coherence/coherence.hpp"
#include "sync/sync.hpp"

namespace penstock::window {

inline constexpr std::uint64_t line_bytes = coherence::line_bytes;
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

/// The ring value of a want; differs from every earlier one.
inline std::uint64_t ring_of(std::uint32_t origin, std::uint32_t serial) {
  return (std::uint64_t{origin} + 1) << 32 | serial;
}

/// Compares two counts that are near each other, as they wrap around.
inline bool later(std::uint32_t count, std::uint32_t than) {
  return static_cast<std::int32_t>(count - than) > 0;
}

class Layout {
 public:
  explicit Layout(std::uint32_t ranks) : n_(ranks) {}

  std::uint64_t signals() const { return 0; }
  std::uint64_t fence() const { return signals() + n_ * n_ * line_bytes; }
  std::uint64_t wants() const { return fence() + sync::Barrier::bytes(ranks()); }
  std::uint64_t bells() const { return wants() + n_ * n_ * line_bytes; }
  std::uint64_t epochs() const { return bells() + n_ * line_bytes; }
  std::uint64_t updates() const { return epochs() + n_ * sync::Lock::bytes(ranks()); }
  std::uint64_t end() const { return updates() + n_ * sync::Lock::bytes(ranks()); }

  std::uint64_t signal(std::uint32_t reader, std::uint32_t writer) const {
    return signals() + (n_ * reader + writer) * line_bytes;
  }
  std::uint64_t want(std::uint32_t target, std::uint32_t origin) const {
    return wants() + (n_ * target + origin) * line_bytes;
  }
  std::uint64_t bell(std::uint32_t target) const { return bells() + target * line_bytes; }
  std::uint64_t epoch_lock(std::uint32_t target) const {
    return epochs() + target * sync::Lock::bytes(ranks());
  }
  std::uint64_t update_lock(std::uint32_t target) const {
    return updates() + target * sync::Lock::bytes(ranks());
  }

 private:
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(n_); }
  std::uint64_t n_;
};

}  // namespace penstock::window
