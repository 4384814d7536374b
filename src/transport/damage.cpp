// Repairs lines of a channel that a foreign store has overwritten. Each line has one writer, which
// keeps a private copy and publishes it again. A message itself cannot be repaired: both ends would
// wait for ever, so the receiver reports it.
#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "transport/endpoint_impl.hpp"

namespace penstock::transport {
namespace {

constexpr std::uint64_t look_every_ns = 1'000'000'000;
/// Peers checked at each look; each costs at most two device accesses.
constexpr std::size_t peers_a_look = 64;
/// One poll is enough in theory: a poll after the position was read finds everything it counts.
constexpr std::uint32_t polls_before_failing = 16;

}  // namespace

// ---- sender ------------------------------------------------------------------------------------

/// The calls that wrote the counted lines and cells have already fenced them.
void TxChannel::publish_position() {
  const bool begun = breaks_off_ || (queue_.first && queue_.first->position != 0);
  PositionLine line;
  line.begun = nonce_ + head_;
  line.whole = line.begun - (begun ? 1 : 0);
  line.cells = nonce_ + cells_head_;
  line.waits = nonce_ + (waiting() || refused_ ? 1 : 0);
  line.checksum = checksum_of(line);
  if (line == position_) return;
  position_ = line;
  // pairs with RxChannel::look_for_stall
  memory_.publish_line(base_ + ChannelLayout::position, &line);
}

bool TxChannel::is_stuck() {
  const bool moved = std::exchange(looked_at_, head_) != head_;
  if (moved || ended_ || consumed_ == head_) return false;
  refresh_credits();
  return !ended_ && consumed_ != head_;
}

void TxChannel::repair(const MailboxWords& mailbox) {
  mailbox_ = mailbox;
  memory_.publish_line(base_, &header_);
  if (previous_.at != nullptr) memory_.publish_line(previous_.at, &previous_.header);
  memory_.publish_word(mailbox_.announcement, MailboxWord::pack(channel_offset_, announced_));
  position_ = {};
  publish_position();  // the statistics' store fence orders it, as always
}

// ---- receiver ----------------------------------------------------------------------------------

RxChannel::Stall RxChannel::look_for_stall(std::uint64_t now_ns) {
  const Progress now{tail_, cell_, got_, pieces_, ready_, stage_};
  const bool moved = std::exchange(looked_at_, now) != now;
  const bool held = deferred_since_ns_ != 0 && now_ns - deferred_since_ns_ < look_every_ns;
  if (moved || held || ended_) return Stall::none;
  PositionLine position;
  // pairs with TxChannel::publish_position
  memory_.observe_line(&position, base_ + ChannelLayout::position);
  if (position.checksum != checksum_of(position)) return Stall::none;
  // compares counts relative to the nonce; an old position may be behind the received data
  const auto behind = [this](std::uint64_t is, std::uint64_t said_to_be) {
    return static_cast<std::int64_t>(said_to_be - nonce_ - is) > 0;
  };
  if (position.begun - nonce_ - tail_ > layout_.ring_lines())
    return Stall::none;  // or foreign data
  bool missing = behind(cell_ + ready_, position.cells);
  switch (stage_) {
    case Stage::header:
      missing = missing || behind(tail_, position.begun);
      break;
    case Stage::eager:  // `tail_` counts a part of its lines; the sender wrote all together
      missing = true;
      break;
    case Stage::pipelined:
    case Stage::rendezvous_get:
      missing = missing || behind(tail_, position.whole);
      break;
  }
  if (missing) return Stall::missing;
  return position.waits == nonce_ + 1 ? Stall::credits : Stall::none;
}

void RxChannel::fail_missing() {
  (void)broken(
      fmt::format("endpoint {} has sent more than line {} and cell {}, where nothing arrives: "
                  "something else wrote to the pool",
                  source_, tail_, cell_));
}

// ---- both ends, once a second ------------------------------------------------------------------

void Endpoint::Impl::look_for_damage(std::uint64_t now) {
  if (now < next_damage_look_ns) return;
  next_damage_look_ns = now + look_every_ns;
  table.repair_lock_line(self.slot);
  std::size_t looks_left = peers_a_look;
  const std::size_t known = peers.known();
  for (std::size_t i = 0; i < known && looks_left > 0; ++i) {
    next_damage_look = (next_damage_look + 1) % known;
    const Peer at = peers.peer_of(next_damage_look);
    const PeerState& peer = peers[at];
    if (!peer.tx && !peer.rx && !poller.has_announced(at)) continue;
    --looks_left;
    if (peer.tx && !peer.dead() && peer.tx->is_stuck()) repair(at);
    if (peer.has_live_rx() && peer.rx->fault().empty()) look_for_damage(at, now);
    // the header at this word's offset may have been overwritten and repaired since
    poller.look_again(at);
  }
}

/// Finds the mailbox words again, since the entry that names the tile may have been overwritten
/// too. That may take the pool's lock; if a stopped process holds it, the next look tries again.
void Endpoint::Impl::repair(Peer to) {
  if (const auto words = table.words(to, self.slot, briefly_ns)) peers[to].tx->repair(*words);
}

void Endpoint::Impl::look_for_damage(Peer source, std::uint64_t now) {
  PeerState& peer = peers[source];
  const RxChannel::Stall stall = peer.rx->look_for_stall(now);
  const bool was_missing = std::exchange(peer.data_missing, stall == RxChannel::Stall::missing);
  if (stall == RxChannel::Stall::credits) {
    const CreditReport again{source, peer.rx->source_generation(), std::nullopt};
    if (std::find(credit_reports.begin(), credit_reports.end(), again) == credit_reports.end())
      credit_reports.push_back(again);
  }
  if (!peer.data_missing) return;
  const bool polled = peer.empty_polls >= polls_before_failing;
  poller.wake(source);  // its announcement may have been overwritten
  if (!was_missing)
    peer.empty_polls = 0;
  else if (polled)
    peer.rx->fail_missing();  // look_for_faults reports it
}

}  // namespace penstock::transport
