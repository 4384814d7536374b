// Repairs lines of a channel that a foreign store has overwritten. Each line has one writer, which
// keeps a private copy and publishes it again. A message itself cannot be repaired: both ends would
// wait for ever, so the receiver reports it.
#include <algorithm>
#include <utility>

#include "transport/endpoint_impl.hpp"

namespace penstock::transport {
namespace {

constexpr std::uint64_t look_every_ns = 1'000'000'000;
/// Peers checked at each look; each costs at most two device accesses.
constexpr std::size_t peers_a_look = 64;
/// One poll is enough in theory: a poll after the position was read finds everything it counts.
constexpr std::uint32_t polls_before_failing = 16;

}  // namespace

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
