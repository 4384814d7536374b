#include "transport/damage_watch.hpp"

#include <utility>

namespace penstock::transport {
namespace {

constexpr std::uint64_t look_every_ns = 1'000'000'000;
/// Peers checked at each look; each costs at most two device accesses.
constexpr std::size_t peers_a_look = 64;
/// One poll is enough in theory: a poll after the position was read finds everything it counts.
constexpr std::uint32_t polls_before_failing = 16;

}  // namespace

void DamageWatch::look(std::uint64_t now_ns) {
  if (now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + look_every_ns;
  table_.repair_lock_line(self_);
  std::size_t looks_left = peers_a_look;
  const std::size_t known = peers_.known();
  for (std::size_t i = 0; i < known && looks_left > 0; ++i) {
    last_ = (last_ + 1) % known;
    const Peer at = peers_.peer_of(last_);
    const PeerState& peer = peers_[at];
    if (!peer.tx && !peer.rx && !poller_.has_announced(at)) continue;
    --looks_left;
    if (peer.tx && !peer.dead() && peer.tx->is_stuck()) repair(at);
    if (peer.has_live_rx() && peer.rx->fault().empty()) look_at(at, now_ns);
    // the header at this word's offset may have been overwritten and repaired since
    poller_.look_again(at);
  }
}

/// Finds the mailbox words again, since the entry that names the tile may have been overwritten
/// too. That may take the pool's lock; if a stopped process holds it, the next look tries again.
void DamageWatch::repair(Peer to) {
  if (const auto words = table_.words(to, self_, briefly_ns)) peers_[to].tx->repair(*words);
}

void DamageWatch::look_at(Peer source, std::uint64_t now_ns) {
  PeerState& peer = peers_[source];
  const RxChannel::Stall stall = peer.rx->look_for_stall(now_ns);
  const bool was_missing = std::exchange(peer.data_missing, stall == RxChannel::Stall::missing);
  if (stall == RxChannel::Stall::credits) reports_.add(source, std::nullopt);
  if (!peer.data_missing) return;
  const bool polled = peer.empty_polls >= polls_before_failing;
  poller_.wake(source);  // its announcement may have been overwritten
  if (!was_missing)
    peer.empty_polls = 0;
  else if (polled)
    peer.rx->fail_missing();  // look_for_faults reports it
}

}  // namespace penstock::transport
