// A window's words in the pool. For n ranks, with rows of n words, 8 to a line:
//
//   posts    n rows     row o: what each target has told origin o: times it opened its segment to
//   it dones    n rows     row t: what each origin has told target t: times it completed towards it
//   asks     n rows     row t: serial of what each origin asks of target t (wants)
//   acks     n rows     row o: serial up to which each target does what origin o asks
//   fence    n lines    a barrier
//   wants    n rows of n lines: line (t, o): the ranges of t's segment that o reaches
//   epochs   n locks of n lines: of a rank's segment, held for an epoch
//   updates  n locks of n lines: of a rank's segment, held for one update
//
// A word has one writer and one reader. Words of one line have several writers: they publish single
// words, which never dirties the line (memory model, rule 5); its reader never stores to it. All
// words only grow.
#pragma once

#include <cstdint>

#include "penstock/coherence.hpp"
#include "penstock/sync.hpp"

namespace penstock::window {

inline constexpr std::uint64_t line_bytes = coherence::line_bytes;
inline constexpr std::size_t most_ranges = 3;

/// Bytes of a segment, from its beginning; whole lines.
struct Range {
  std::uint64_t first = 0, end = 0;
  std::uint64_t bytes() const { return end - first; }
  bool holds(std::uint64_t from, std::uint64_t to) const { return from >= first && to <= end; }
};

struct WantLine {
  std::uint64_t serial;
  Range ranges[most_ranges];  ///< empty ones are not used
  std::uint64_t seal;
};
static_assert(sizeof(WantLine) == line_bytes);

class Layout {
 public:
  explicit Layout(std::uint32_t ranks) : n_(ranks), row_((8ull * ranks + 63) / 64 * 64) {}

  std::uint64_t row_bytes() const { return row_; }
  std::uint64_t posts() const { return 0; }
  std::uint64_t dones() const { return posts() + n_ * row_; }
  std::uint64_t asks() const { return dones() + n_ * row_; }
  std::uint64_t acks() const { return asks() + n_ * row_; }
  std::uint64_t fence() const { return acks() + n_ * row_; }
  std::uint64_t wants() const { return fence() + sync::Barrier::bytes(ranks()); }
  std::uint64_t epochs() const { return wants() + n_ * n_ * line_bytes; }
  std::uint64_t updates() const { return epochs() + n_ * sync::Lock::bytes(ranks()); }
  std::uint64_t end() const { return updates() + n_ * sync::Lock::bytes(ranks()); }

  std::uint64_t want(std::uint32_t target, std::uint32_t origin) const {
    return wants() + (n_ * target + origin) * line_bytes;
  }
  std::uint64_t epoch_lock(std::uint32_t target) const {
    return epochs() + target * sync::Lock::bytes(ranks());
  }
  std::uint64_t update_lock(std::uint32_t target) const {
    return updates() + target * sync::Lock::bytes(ranks());
  }

 private:
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(n_); }
  std::uint64_t n_, row_;
};

}  // namespace penstock::window
