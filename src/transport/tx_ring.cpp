#include "transport/tx_ring.hpp"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "base/checked.hpp"

namespace penstock::transport {
namespace {

/// Draws from [2^62, 2^63), so neither zeroed nor freshly mapped memory holds a valid sequence tag
/// or credit. Bit 63 stays free for `flag_put`.
std::uint64_t random_nonce() {
  std::uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value)
    value = reinterpret_cast<std::uintptr_t>(&value) * 0x9e3779b97f4a7c15ull;
  return (value >> 3) | (1ull << 62);
}

}  // namespace

std::uint64_t TxRing::bytes_of(const ChannelLayout& layout) {
  return base::align_up(layout.bytes(), channel_alignment);
}

void TxRing::begin() {
  head_ = consumed_ = looked_at_ = 0;
  position_ = {};
  header_.magic = channel_magic;
  header_.nonce = random_nonce();
  header_.ring_lines = static_cast<std::uint32_t>(lines());
  header_.checksum = checksum_of(header_);
  memory_.publish_line(base_, &header_);
  memory_.store_fence();  // pairs with RxChannel::open, which reads it after the mailbox word
}

void TxRing::move_to(std::byte* base, const ChannelLayout& layout) {
  header_.previous = static_cast<std::uint32_t>(offset() / channel_alignment);
  header_.lines_before = static_cast<std::uint32_t>(head_);
  base_ = base;
  layout_ = layout;
  begin();
}

void TxRing::write_tagged(const std::byte* payload, std::uint64_t bytes, bool streams) {
  while (bytes > 0) {
    const std::uint64_t until_wrap = layout_.lines_to_wrap(head_);
    const std::uint64_t piece = std::min(bytes, until_wrap * coherence::tagged_bytes);
    streams ? memory_.stream_tagged(line_at(head_), payload, piece, next_tag())
            : memory_.publish_tagged(line_at(head_), payload, piece, next_tag());
    head_ += (piece + coherence::tagged_bytes - 1) / coherence::tagged_bytes;
    payload += piece;
    bytes -= piece;
  }
}

void TxRing::write_tag() {
  MessageLine line{};
  line.sequence_tag = next_tag();
  memory_.send_line(line_at(head_), &line);
  ++head_;
}

void TxRing::overwrite(std::uint64_t number, MessageLine& line) {
  line.sequence_tag = line.sequence_tag_of(nonce() + number);
  memory_.send_line(line_at(number), &line);
}

void TxRing::publish_position(bool begun, std::uint64_t cells, bool waits, bool again) {
  PositionLine line;
  line.begun = nonce() + head_;
  line.whole = line.begun - (begun ? 1 : 0);
  line.cells = nonce() + cells;
  line.waits = nonce() + (waits ? 1 : 0);
  line.checksum = checksum_of(line);
  if (line == position_ && !again) return;
  position_ = line;
  // pairs with RxChannel::look_for_stall
  memory_.publish_line(base_ + ChannelLayout::position, &line);
}

bool TxRing::rests_unconsumed() {
  const bool moved = std::exchange(looked_at_, head_) != head_;
  return !moved && consumed_ != head_;
}

}  // namespace penstock::transport
