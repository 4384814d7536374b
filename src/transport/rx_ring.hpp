// The ring of a channel as its receiver sees it: the lines consumed, and which of the next ones
// this node may hold old copies of.
#pragma once

#include <algorithm>

#include "transport/layout.hpp"

namespace penstock::transport {

/// With a backlog, this many lines beyond the current one are prefetched.
inline constexpr std::uint64_t lines_ahead = 32;

class RxRing {
 public:
  RxRing(const coherence::Memory& memory, const std::byte* base, const ChannelHeader& header)
      : memory_(memory), base_(base), layout_(header), nonce_(header.nonce) {}

  std::uint64_t nonce() const { return nonce_; }
  std::uint64_t lines() const { return layout_.ring_lines(); }
  /// Lines consumed.
  std::uint64_t tail() const { return tail_; }
  void take(std::uint64_t lines) { tail_ += lines; }
  const std::byte* line_at(std::uint64_t number) const { return base_ + layout_.line(number); }
  const std::byte* next_line() const { return line_at(tail_); }
  /// Number of contiguous lines from the next one on.
  std::uint64_t lines_to_wrap() const { return layout_.lines_to_wrap(tail_); }

  /// Invalidates consumed lines, and the lines from `next` on that a poll reads.
  void invalidate_window(std::uint64_t next);
  /// True if a load of this line sees the device as of the last invalidation.
  bool is_fresh(std::uint64_t number) const {
    return number < fresh_until_ || !memory_.loads_may_be_stale();
  }
  std::uint64_t load_tag(std::uint64_t number) const {
    return memory_.load_word(line_at(number) + offsetof(MessageLine, sequence_tag));
  }
  /// Takes the payload of `lines` tagged lines, `bytes` in all, as far as their tags match. Returns
  /// the number of bytes taken.
  std::uint64_t load_tagged(std::byte* to, std::uint64_t bytes, std::uint64_t lines);
  /// Makes loads of the next lines, and of all that were prefetched, see the device. `lines`: at
  /// most up to the wrap.
  void freshen(std::uint64_t lines);
  /// Prefetches the next lines, within this lap, while the lines before them are read.
  void fetch(std::uint64_t lines);

  /// True if the last poll found something.
  bool has_backlog() const { return backlog_; }
  /// Chooses the lines of the next poll, after one that took the lines from `from` on. True if it
  /// took any.
  bool end_poll(std::uint64_t from) {
    const std::uint64_t taken = tail_ - from;
    // A sender that awaits our answer repeats its pattern: look at as many lines as it sent. Each
    // further line delays every look (by 60 ns here), so only a backlog gets a larger window.
    if (taken != 0) window_ = std::min(backlog_ ? 2 * taken : taken, max_window);
    backlog_ = taken != 0;
    return backlog_;
  }

 private:
  static constexpr std::uint64_t max_window = 16;

  void drop_consumed();

  coherence::Memory memory_;
  const std::byte* base_;
  ChannelLayout layout_;
  std::uint64_t nonce_;
  std::uint64_t tail_ = 0;
  std::uint64_t fresh_until_ = 0;  ///< lines [tail_, fresh_until_) were invalidated and load-fenced
  std::uint64_t fetched_until_ = 0;  ///< lines [tail_, fetched_until_) were prefetched
  std::uint64_t cached_from_ = 0;    ///< lines [cached_from_, tail_) may still be cached
  std::uint64_t window_ = 1;         ///< lines looked at together by a poll
  bool backlog_ = false;
};

}  // namespace penstock::transport
