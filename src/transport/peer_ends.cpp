// How peers come and go: messages that a peer had published are delivered first, then unfinished
// ones fail.
#include "base/format.hpp"
#include "base/log.hpp"
#include "transport/endpoint_impl.hpp"

namespace penstock::transport {

/// Prepares for a channel from this endpoint, which the poller is about to take over.
void Endpoint::Impl::meet(Peer source, std::uint32_t generation) {
  if (!peers.watch.watched(source, generation)) {
    const auto line = table.read(source);
    if (line && line->generation == generation)
      watch_peer(source, generation, line->token);
    else if (peers.watch.token(source) == 0)
      peers.watch.add(source, generation, 0);  // it has gone: the watch reports it
  }
  // also if its watch has ended: the new owner announces itself in the word that may hold the old
  // one's last announcement
  PeerState& peer = peers[source];
  if (peer.rx) end_rx(source, Error{ErrorCode::peer_dead, "the sender has gone"});
  (void)peers.counts_of(source, generation);
  if (!peer.resolved) peer.address = {self.pool_id, self.job, source, generation};
}

/// Fails queued operations and frees the channel. A broken peer may live and still store credits:
/// then the channel's memory stays.
void Endpoint::Impl::end_tx(Peer to, PeerFate fate, const Error& error) {
  std::unique_ptr<TxChannel>& tx = peers[to].tx;
  if (!tx) return;
  tx->fail_all(*callbacks, error);
  if (fate == PeerFate::faulty) return;
  tx->give_memory_back(fate == PeerFate::closed);
  tx.reset();
  std::erase(tx_waiting, to);
}

/// The slot has a new owner that has announced itself already: the channel is not the old owner's.
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

/// The slot may have had another owner, whose end was not noticed yet: it is reported now.
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

/// Delivers the messages that the sender had published before it went; a half-received one fails.
void Endpoint::Impl::end_rx(Peer source, const Error& error) {
  if (peers[source].hears()) {
    poller.wake(source);
    poller.take_the_last(source, *callbacks);
  }
  peers[source].rx->fail(error);
  poller.rest(source);
}

void Endpoint::Impl::peer_gone(Peer gone, std::uint32_t generation, PeerFate fate,
                               const std::string& description) {
  PeerState& peer = peers[gone];
  // messages that it published before it went are still good; its announcements first, also that of
  // the channel to which it had moved
  for (int channel = 0; channel < 2; ++channel) {
    poller.sweep();
    poller.take_the_last(gone, *callbacks);
  }
  if (peer.tx && fate != PeerFate::faulty) peer.tx->notify_delivered(*callbacks);
  const char* how = fate == PeerFate::dead     ? "died"
                    : fate == PeerFate::closed ? "left"
                                               : "is broken";
  const Error error{ErrorCode::peer_dead, fmt::format("{} {}", description, how)};
  const std::uint32_t heard = peer.rx ? peer.rx->source_generation() : generation;
  if (heard != generation && peers.watch.watched(gone, heard))
    return predecessor_gone(gone, generation, fate, error);
  const bool unfinished = (peer.tx && peer.tx->waiting()) || (peer.rx && !peer.rx->quiet());
  const bool in_order = fate == PeerFate::closed && !unfinished;
  if (!peer.gone(generation)) peer.dead_generation = generation;
  peer.description = error.message;
  end_tx(gone, fate, error);
  if (peer.rx) {
    // a broken peer may live, and store into the user's buffer
    if (fate == PeerFate::faulty && peer.rx->cleared()) peer.rx->withdraw_clear_to_send();
    peer.rx->fail(error);
    poller.rest(gone);
  }
  if (in_order) return callbacks->on_peer_left(gone, error.message);
  base::log(base::Level::error, "{}", error.message);
  callbacks->on_peer_dead(gone, error.message);
}

}  // namespace penstock::transport
