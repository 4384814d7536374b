// Eager lines: short messages inside the ring. A message of up to 32 bytes takes one line; a longer
// one continues in the tagged lines after it. Protocol: docs/protocols/channel.md.
#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "base/clock.hpp"
#include "base/format.hpp"
#include "transport/iov.hpp"
#include "transport/rx_channel.hpp"
#include "transport/tx_channel.hpp"

namespace penstock::transport {
namespace {

/// Longer messages that follow each other within `stream_gap_ns` form a stream.
constexpr std::uint64_t stream_bytes = 4096, stream_gap_ns = 1000;
/// Lines of messages above this size are written as a stream. Written alone, the first line would
/// arrive sooner, but not the last one.
constexpr std::uint64_t alone_max_bytes = 448;
/// Lines that are checked again together while the sender still writes the rest of a message.
constexpr std::uint64_t retry_lines = 32;
constexpr int retries_per_poll = 4;

}  // namespace

// ---- the sender ---------------------------------------------------------------------------------

void TxChannel::put_inline(const Header& header, const void* payload, std::uint8_t flags) {
  MessageLine line;
  line.meta = MessageLine::pack(header.bytes, flags, Form::inlined, header.kind);
  line.tag = header.tag;
  line.data = header.data;
  if (header.bytes != 0) std::memcpy(line.payload, payload, header.bytes);  // may be null at 0
  line.sequence_tag = line.sequence_tag_of(nonce_ + head_);
  streams() ? memory_.stream_line(line_at(head_), &line) : memory_.send_line(line_at(head_), &line);
  ++head_;
  announce();
  memory_.store_fence();
  count(header);
}

void TxChannel::put_eager(const Header& header, const std::byte* payload, std::uint8_t flags) {
  MessageLine line;
  line.meta = MessageLine::pack(header.bytes, flags, Form::eager, header.kind);
  line.tag = header.tag;
  line.data = header.data;
  std::memcpy(line.payload, payload, inline_bytes);
  line.sequence_tag = line.sequence_tag_of(nonce_ + head_);
  const bool stream = streams() || header.bytes > alone_max_bytes;
  stream ? memory_.stream_line(line_at(head_), &line) : memory_.send_line(line_at(head_), &line);
  ++head_;
  std::uint64_t rest = header.bytes - inline_bytes;
  payload += inline_bytes;
  while (rest > 0) {
    const std::uint64_t until_wrap = layout_.lines_to_wrap(head_);
    const std::uint64_t piece = std::min(rest, until_wrap * coherence::tagged_bytes);
    stream ? memory_.stream_tagged(line_at(head_), payload, piece, nonce_ + head_)
           : memory_.publish_tagged(line_at(head_), payload, piece, nonce_ + head_);
    head_ += (piece + coherence::tagged_bytes - 1) / coherence::tagged_bytes;
    payload += piece;
    rest -= piece;
  }
  announce();
  memory_.store_fence();
  count(header);
  if (header.bytes > stream_bytes) long_sent_ns_ = base::now_ns();
}

/// Lines reach the receiver sooner; cells cost both sides less time. A longer message is part of a
/// stream, and goes in cells, if it follows another closely or waits behind one for credit.
bool TxChannel::is_eager(std::uint64_t bytes) {
  if (bytes > context_.settings.lines_max_bytes) return false;
  if (lines_of(bytes) > layout_.ring_lines() && !may_grow()) return false;  // the pool is full
  if (bytes <= stream_bytes) return true;
  const bool stream = queue_.first || base::now_ns() - long_sent_ns_ < stream_gap_ns;
  if (!stream) return true;
  if (!cells_ && context_.coarse_ns >= no_cells_until_ns_ && !make_cells(false))
    no_cells_until_ns_ = context_.coarse_ns + full_pool_ns;
  return !cells_;
}

// ---- the receiver -------------------------------------------------------------------------------

bool RxChannel::begin_eager(const MessageLine& line) {
  if (!direct_) {
    if (staging_.size() < header_.bytes) staging_.resize(header_.bytes);
  }
  std::memcpy(direct_ ? direct_ : staging_.data(), line.payload, inline_bytes);
  got_ = inline_bytes;
  ++tail_;
  stage_ = Stage::eager;
  return continue_eager();
}

bool RxChannel::continue_eager() {
  std::byte* to = direct_ ? direct_ : staging_.data();
  int retries = 0;
  while (got_ < header_.bytes) {
    const std::uint64_t rest = header_.bytes - got_;
    std::uint64_t lines = (rest + coherence::tagged_bytes - 1) / coherence::tagged_bytes;
    lines = std::min(lines, layout_.lines_to_wrap(tail_));
    if (retries > 0) {
      lines = std::min(lines, retry_lines);
      freshen(std::max(tail_ + lines, fetched_until_));
    } else if (backlog_) {
      fetch(tail_ + lines + lines_ahead);
    }
    const std::uint64_t wanted = std::min(rest, lines * coherence::tagged_bytes);
    const std::uint64_t got =
        memory_.load_tagged(to + got_, line_at(tail_), wanted, nonce_ + tail_);
    got_ += got;
    tail_ += got == wanted ? lines : got / coherence::tagged_bytes;
    if (got == wanted) continue;
    fresh_until_ = tail_;  // copies of the following lines may be stale by now
    ++counts_.retries;
    if (++retries > retries_per_poll) return false;
  }
  if (!direct_) iov_scatter(receive_buffer_.iov, receive_buffer_.iov_count, 0, to, header_.bytes);
  context_.took(header_.bytes);
  finish();
  return true;
}

}  // namespace penstock::transport
