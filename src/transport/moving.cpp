// The size of a channel follows its use. A channel begins small, moves to a larger ring when it is
// busy, and back when it is idle. Protocol: docs/protocols/channel.md, "Small and large".
#include <algorithm>

#include "base/checked.hpp"
#include "transport/tx_channel.hpp"

namespace penstock::transport {
namespace {

/// A pair is busy if it completes two laps of a small ring within this time.
constexpr std::uint64_t busy_lap_ns = 100'000'000;
/// Longest time between checks whether a channel is idle or its receiver has moved.
constexpr std::uint64_t look_ns = 1'000'000'000;

}  // namespace

std::uint64_t TxChannel::bytes_of(const ChannelLayout& layout) {
  return base::align_up(layout.bytes(), channel_alignment);
}

/// Called once a lap. A slow pair keeps its small ring for ever.
void TxChannel::note_lap() {
  next_lap_ = is_small() ? head_ + layout_.ring_lines() : ~0ull;
  if (!is_small()) return;
  const std::uint64_t now = context_.coarse_ns;
  if (now - lap_ns_ <= busy_lap_ns) want_larger();
  lap_ns_ = now;
}

void TxChannel::want_larger() {
  wants_larger_ = may_grow();
}

void TxChannel::want_cells() {
  wants_cells_ =
      cell_count_ < context_.settings.cell_count && context_.coarse_ns >= no_larger_until_ns_;
}

/// Moves to a larger ring if possible now. The receiver takes the old ring's messages first.
bool TxChannel::try_to_move() {
  if (previous_.at != nullptr || cells_consumed_ != cells_head_) refresh_credits();
  if (ended_ || previous_.at != nullptr || delivering_.first || cells_consumed_ != cells_head_)
    return false;
  wants_larger_ = false;
  if (move(context_.settings.ring_lines)) return true;
  no_larger_until_ns_ = context_.coarse_ns + full_pool_ns;
  return false;
}

/// The receiver finds the new channel by its announcement, and the old one by the new header. Until
/// it returns credits on the new channel, it may still store to the old one. No message is half
/// sent. False: the pool is full.
bool TxChannel::move(std::uint32_t ring_lines) {
  const ChannelLayout layout(context_.settings.cell_count, ring_lines);
  auto at = context_.tx_memory.allocate(bytes_of(layout), "a channel", false);
  if (!at) return false;
  publish_position();  // last one of the old channel: shows the receiver if data are missing there
  previous_ = {base_, bytes_of(layout_), nonce_, error_seen_, consumed_ == head_, header_};
  if (error_seen_ != error_taken_) previous_error_ = error_seen_;
  header_.previous = static_cast<std::uint32_t>(channel_offset_ / channel_alignment);
  header_.lines_before = static_cast<std::uint32_t>(head_);
  base_ = *at;
  layout_ = layout;
  channel_offset_ = *context_.pool.offset_of(base_);
  begin(ring_lines);
  return true;
}

/// Reads the receiver's credits in the old channel, until the receiver has moved.
void TxChannel::read_previous_credits(std::uint64_t lines_consumed) {
  CreditLine last;
  memory_.observe_line(&last, previous_.at + ChannelLayout::credits);
  ended_ = ended_ || last.lines == broken_off(previous_.nonce);
  if (lines_consumed > head_) return;  // no credits in the new channel yet
  const std::uint64_t error = last.error - previous_.nonce;
  if (last.error != 0 && error >> 32 == 0 && error != previous_.error)
    previous_error_ = static_cast<std::uint32_t>(error);
  context_.tx_memory.give_back(previous_.at, previous_.bytes,
                               true);  // its stores there are at the device
  previous_ = {};
}

bool TxChannel::previous_consumed() const {
  return previous_.at == nullptr || previous_.consumed;
}

/// False: more cells are wanted, but the receiver has not consumed the present ones yet.
bool TxChannel::cells_are_ready() {
  if (!wants_cells_) return true;
  if (cells_consumed_ != cells_head_) refresh_credits();
  if (cells_consumed_ != cells_head_) return false;
  wants_cells_ = false;
  const std::uint32_t number = context_.settings.cell_count;
  auto more =
      context_.tx_memory.allocate(static_cast<std::uint64_t>(number) * cell_bytes_, "cells", false);
  if (!more) {
    no_larger_until_ns_ = context_.coarse_ns + full_pool_ns;
    return true;
  }
  give_cells_back();
  cells_ = *more;
  cell_count_ = number;
  return true;
}

void TxChannel::give_back_idle(std::uint64_t now_ns) {
  if (now_ns < next_idle_look_ns_ || ended_) return;
  const std::uint64_t idle_ns = context_.settings.idle_ns;
  next_idle_look_ns_ = now_ns + std::min(look_ns, idle_ns);
  if (previous_.at != nullptr) refresh_credits();
  const bool idle = context_.coarse_ns - announced_ns_ >= idle_ns;
  if (!idle || waiting() || previous_.at != nullptr || (is_smallest() && cells_ == nullptr)) return;
  if (!consumed() || ended_ || cells_consumed_ != cells_head_) return;
  give_cells_back();
  if (is_smallest() || !move(context_.settings.first_ring_lines)) return;
  // announces the offset but no message; ordered by the statistics' store fence
  memory_.publish_word(mailbox_.announcement, MailboxWord::pack(channel_offset_, announced_));
}

void TxChannel::give_cells_back() {
  if (cells_ == nullptr) return;
  context_.tx_memory.give_back(cells_, static_cast<std::uint64_t>(cell_count_) * cell_bytes_, true);
  cells_ = nullptr;
}

}  // namespace penstock::transport
