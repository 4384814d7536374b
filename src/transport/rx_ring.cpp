#include "transport/rx_ring.hpp"

#include <algorithm>

namespace penstock::transport {
void RxRing::invalidate_window(std::uint64_t next) {
  drop_consumed();
  // lines that were prefetched before the sender wrote them are stale
  const std::uint64_t fetched = fetched_until_ > next ? fetched_until_ - next : 0;
  const std::uint64_t lines = std::min(std::max(window_, fetched), layout_.lines_to_wrap(next));
  memory_.invalidate(line_at(next), line_bytes * lines);
  fresh_until_ = next + lines;
  fetched_until_ = 0;
}

/// Invalidates consumed lines while there is time, so that the next lap finds no copies of them and
/// need not invalidate while a message waits. Only sequence tags decide what is new: a copy that
/// was prefetched meanwhile costs another look, never a wrong byte.
void RxRing::drop_consumed() {
  while (cached_from_ < tail_) {
    const std::uint64_t lines = std::min(tail_ - cached_from_, layout_.lines_to_wrap(cached_from_));
    memory_.invalidate(line_at(cached_from_), line_bytes * lines);
    cached_from_ += lines;
  }
}

void RxRing::freshen(std::uint64_t lines) {
  const std::uint64_t until = std::max(tail_ + lines, fetched_until_);
  if (fresh_until_ >= until || !memory_.loads_may_be_stale()) return;
  const std::uint64_t from = std::max(fresh_until_, tail_);
  memory_.invalidate(line_at(from), line_bytes * (until - from));
  memory_.load_fence();
  fresh_until_ = until;
}

/// Without this each load would wait for the device, since a line's sequence tag decides whether to
/// read the next line. This node has no copies of them (drop_consumed); the next poll drops lines
/// that the sender had not written yet.
void RxRing::fetch(std::uint64_t lines) {
  const std::uint64_t from = std::max(fetched_until_, tail_);
  const std::uint64_t until = std::min(tail_ + lines, tail_ + layout_.lines_to_wrap(tail_));
  if (from >= until) return;
  memory_.fetch(line_at(from), line_bytes * (until - from));
  fetched_until_ = until;
}

std::uint64_t RxRing::load_tagged(std::byte* to, std::uint64_t bytes, std::uint64_t lines) {
  const std::uint64_t got = memory_.load_tagged(to, line_at(tail_), bytes, nonce_ + tail_);
  tail_ += got == bytes ? lines : got / coherence::tagged_bytes;
  if (got != bytes) fresh_until_ = tail_;  // copies of the following lines may be stale by now
  return got;
}

}  // namespace penstock::transport
