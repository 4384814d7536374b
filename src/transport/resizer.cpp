#include "transport/resizer.hpp"

#include <algorithm>
#include <utility>

#include "transport/tx_parts.hpp"

namespace penstock::transport {
namespace {

/// A pair is busy if it completes two laps of a small ring within this time.
constexpr std::uint64_t busy_lap_ns = 100'000'000;
/// Longest time between checks whether a channel is idle or its receiver has moved.
constexpr std::uint64_t look_ns = 1'000'000'000;

}  // namespace

bool Resizer::is_small(const TxParts& tx) {
  return tx.ring.lines() < tx.context.settings.ring_lines;
}

bool Resizer::is_smallest(const TxParts& tx) {
  return tx.ring.lines() == tx.context.settings.first_ring_lines;
}

bool Resizer::may_grow(const TxParts& tx) const {
  return is_small(tx) && !has_previous() && tx.context.coarse_ns >= no_larger_until_ns_;
}

/// A slow pair keeps its small ring for ever.
void Resizer::note_lap(TxParts& tx) {
  next_lap_ = is_small(tx) ? tx.ring.head() + tx.ring.lines() : ~0ull;
  if (!is_small(tx)) return;
  const std::uint64_t now = tx.context.coarse_ns;
  if (now - lap_ns_ <= busy_lap_ns) want_larger(tx);
  lap_ns_ = now;
}

void Resizer::want_cells(const TxParts& tx) {
  wants_cells_ = tx.cells.count() < tx.context.settings.cell_count &&
                 tx.context.coarse_ns >= no_larger_until_ns_;
}

bool Resizer::try_to_move(TxParts& tx) {
  if (has_previous() || !tx.cells.all_consumed()) tx.refresh_credits();
  if (tx.ended || has_previous() || !tx.delivering.empty() || !tx.cells.all_consumed())
    return false;
  wants_larger_ = false;
  if (move(tx, tx.context.settings.ring_lines)) return true;
  no_larger_until_ns_ = tx.context.coarse_ns + full_pool_ns;
  return false;
}

/// The receiver finds the new channel by its announcement, and the old one by the new header. Until
/// it returns credits on the new channel, it may still store to the old one. No message is half
/// sent. False: the pool is full.
bool Resizer::move(TxParts& tx, std::uint32_t ring_lines) {
  const ChannelLayout layout(tx.context.settings.cell_count, ring_lines);
  auto at = tx.context.tx_memory.allocate(TxRing::bytes_of(layout), "a channel", false);
  if (!at) return false;
  tx.publish_position();  // last one of the old channel: shows the receiver if data are missing
  previous_ = {tx.ring.base(), TxRing::bytes_of(tx.ring.layout()), tx.errors.seen,
               tx.ring.consumed() == tx.ring.head(), tx.ring.header()};
  if (tx.errors.seen != tx.errors.taken) previous_error_ = tx.errors.seen;
  tx.ring.move_to(*at, layout);
  tx.begin();
  return true;
}

void Resizer::read_previous_credits(TxParts& tx, std::uint64_t lines_consumed) {
  CreditLine last;
  tx.memory.observe_line(&last, previous_.at + ChannelLayout::credits);
  const std::uint64_t nonce = previous_.header.nonce;
  tx.ended = tx.ended || last.lines == broken_off(nonce);
  if (lines_consumed > tx.ring.head()) return;  // no credits in the new channel yet
  const std::uint64_t error = last.error - nonce;
  if (last.error != 0 && error >> 32 == 0 && error != previous_.error)
    previous_error_ = static_cast<std::uint32_t>(error);
  give_previous_back(tx, true);  // its stores there are at the device
}

std::uint32_t Resizer::take_error() {
  return std::exchange(previous_error_, 0);
}

void Resizer::repair_previous(const coherence::Memory& memory) {
  if (has_previous()) memory.publish_line(previous_.at, &previous_.header);
}

void Resizer::give_previous_back(TxParts& tx, bool quiescent) {
  if (!has_previous()) return;
  tx.context.tx_memory.give_back(previous_.at, previous_.bytes, quiescent);
  previous_ = {};
}

bool Resizer::cells_are_ready(TxParts& tx) {
  if (!wants_cells_) return true;
  if (!tx.cells.all_consumed()) tx.refresh_credits();
  if (!tx.cells.all_consumed()) return false;
  wants_cells_ = false;
  if (!tx.cells.grow(tx.context.tx_memory, tx.context.settings.cell_count))
    no_larger_until_ns_ = tx.context.coarse_ns + full_pool_ns;
  return true;
}

void Resizer::give_back_idle(TxParts& tx, std::uint64_t now_ns) {
  if (now_ns < next_idle_look_ns_ || tx.ended) return;
  const std::uint64_t idle_ns = tx.context.settings.idle_ns;
  next_idle_look_ns_ = now_ns + std::min(look_ns, idle_ns);
  if (has_previous()) tx.refresh_credits();
  const bool idle = tx.context.coarse_ns - tx.announcer.announced_ns() >= idle_ns;
  if (!idle || tx.waiting() || has_previous() || (is_smallest(tx) && !tx.cells.exist())) return;
  if (!tx.consumed() || tx.ended || !tx.cells.all_consumed()) return;
  tx.cells.give_back(tx.context.tx_memory);
  if (is_smallest(tx) || !move(tx, tx.context.settings.first_ring_lines)) return;
  tx.announcer.announce_again(tx.ring.offset());  // ordered by the statistics' store fence
}

}  // namespace penstock::transport
