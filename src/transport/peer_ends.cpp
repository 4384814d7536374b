// Arrival and end of peers. Messages that a peer had published are delivered first; then unfinished
// ones fail.
#include "base/format.hpp"
#include "base/log.hpp"
#include "transport/endpoint_impl.hpp"

namespace penstock::transport {

/// Prepares for a new channel from this endpoint, before the poller replaces the old one.
void Endpoint::Impl::prepare_for_channel(Peer source, std::uint32_t generation) {
  if (!peers.watch.watched(source, generation)) {
    const auto line = table.read(source);
    if (line && line->generation == generation)
      watch_peer(source, generation, line->token);
    else if (peers.watch.token(source) == 0)
      peers.watch.add(source, generation, 0);  // it has ended: the watch reports it
  }
  // Also if its watch has ended: the new owner announces itself in the word that may hold the old
  // owner's last announcement.
  PeerState& peer = peers[source];
  if (peer.rx) end_rx(source, Error{ErrorCode::peer_dead, "the sender has gone"});
  (void)peers.counts_of(source, generation);
  if (!peer.resolved) peer.address = {self.pool_id, self.job, source, generation};
}

/// Fails queued operations and frees the channel. A faulty peer may be alive and still store
/// credits: then the channel's memory stays allocated.
void Endpoint::Impl::end_tx(Peer to, PeerFate fate, const Error& error) {
  std::unique_ptr<TxChannel>& tx = peers[to].tx;
  if (!tx) return;
  tx->fail_all(*callbacks, error);
  if (fate == PeerFate::faulty) return;
  tx->give_memory_back(fate == PeerFate::closed);
  tx.reset();
  std::erase(tx_waiting, to);
}

/// Ends an earlier endpoint of a slot whose new owner already has the receiving channel.
void Endpoint::Impl::predecessor_gone(Peer gone, std::uint32_t generation, PeerFate fate,
                                      const Error& error) {
  PeerState& peer = peers[gone];
  if (!peer.resolved || peer.address.generation != generation) return;
  if (peer.tx) peer.tx->notify_delivered(*callbacks);
  const bool unfinished = peer.tx && peer.tx->waiting();
  if (!peer.gone(generation)) peer.dead_generation = generation;
  peer.description = error.message;
  end_tx(gone, fate, error);
  if (fate == PeerFate::closed && !unfinished) return callbacks->on_peer_left(gone, error.message);
  base::log(base::Level::error, "{}", error.message);
  callbacks->on_peer_dead(gone, error.message);
}

/// If the slot had an owner whose end was not noticed yet, reports that end now.
void Endpoint::Impl::watch_peer(Peer peer, std::uint32_t generation, std::uint64_t token) {
  if (peers.watch.watched(peer, generation)) return;
  const std::uint32_t before = peers.watch.generation(peer);
  const bool died = peers.watch.fate(peer) == PeerFate::dead;
  const std::string description = peers.describe(peer);
  peers.watch.add(peer, generation, token);
  if (before == 0) return;
  const PeerFate fate = died ? PeerFate::dead : PeerFate::closed;
  const Error error{ErrorCode::peer_dead,
                    fmt::format("{} {}", description, died ? "died" : "left")};
  if (peers[peer].rx && peers[peer].rx->source_generation() == before) end_rx(peer, error);
  predecessor_gone(peer, before, fate, error);
}

/// Delivers the messages that the sender had published; fails a half-received one.
void Endpoint::Impl::end_rx(Peer source, const Error& error) {
  if (peers[source].has_live_rx()) {
    poller.wake(source);
    poller.drain_closed(source, *callbacks);
  }
  peers[source].rx->fail(error);
  poller.rest(source);
}

void Endpoint::Impl::peer_gone(Peer gone, std::uint32_t generation, PeerFate fate,
                               const std::string& description) {
  PeerState& peer = peers[gone];
  const char* how = fate == PeerFate::dead     ? "died"
                    : fate == PeerFate::closed ? "left"
                                               : "is broken";
  const Error error{ErrorCode::peer_dead, fmt::format("{} {}", description, how)};
  // Messages published before the end are still good. First find the announcements, also that of a
  // channel to which the peer had moved.
  for (int channel = 0; channel < 2; ++channel) {
    poller.sweep();
    if (const auto& rx = peer.rx; rx && rx->source_generation() != generation &&
                                  peers.watch.watched(gone, rx->source_generation()))
      return predecessor_gone(gone, generation, fate, error);  // before the successor's messages
    poller.drain_closed(gone, *callbacks);
  }
  if (peer.tx && fate != PeerFate::faulty) peer.tx->notify_delivered(*callbacks);
  const bool unfinished = (peer.tx && peer.tx->waiting()) || (peer.rx && !peer.rx->quiet());
  const bool in_order = fate == PeerFate::closed && !unfinished;
  if (!peer.gone(generation)) peer.dead_generation = generation;
  peer.description = error.message;
  end_tx(gone, fate, error);
  if (peer.rx) {
    // a faulty peer may be alive and store into the user's buffer
    if (fate == PeerFate::faulty && peer.rx->cleared()) peer.rx->withdraw_clear_to_send();
    peer.rx->fail(error);
    poller.rest(gone);
  }
  if (in_order) return callbacks->on_peer_left(gone, error.message);
  base::log(base::Level::error, "{}", error.message);
  callbacks->on_peer_dead(gone, error.message);
}

}  // namespace penstock::transport
