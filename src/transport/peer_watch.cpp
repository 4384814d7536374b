#include "transport/peer_watch.hpp"

namespace penstock::transport {

void PeerWatch::add(Peer peer, std::uint32_t generation, std::uint64_t token) {
  for (auto& watched : peers_) {
    if (watched.peer != peer) continue;
    watched = {peer, generation, token};
    return;
  }
  peers_.push_back({peer, generation, token});
}

bool PeerWatch::watched(Peer peer, std::uint32_t generation) const {
  for (const auto& watched : peers_)
    if (watched.peer == peer && watched.generation == generation) return true;
  return false;
}

std::uint64_t PeerWatch::token(Peer peer) const {
  for (const auto& watched : peers_)
    if (watched.peer == peer) return watched.token;
  return 0;
}

std::uint32_t PeerWatch::generation(Peer peer) const {
  for (const auto& watched : peers_)
    if (watched.peer == peer) return watched.generation;
  return 0;
}

/// A torn line hides how the peer ended: a process is claiming its slot, and the whole line will
/// show it. If the claimer died meanwhile, the line stays torn; the peer had ended before that.
PeerFate PeerWatch::fate_of(Watched& watched) {
  // A process that leaves in order closes its endpoint before it detaches, so the line must be read
  // after the liveness check.
  const bool alive = pool_.alive(watched.token);
  const auto line = table_.read(watched.peer);
  if (!line && ++watched.torn_looks < max_torn_looks) return PeerFate::present;
  if (line) watched.torn_looks = 0;
  const bool same = line && line->generation == watched.generation;
  if (same && line->closed()) return PeerFate::closed;
  // the slot has a new owner; the line says how the old one ended
  if (line && !same && line->had_closed(watched.generation)) return PeerFate::closed;
  if (!alive) return PeerFate::dead;
  return same ? PeerFate::present : PeerFate::closed;
}

PeerFate PeerWatch::fate(Peer peer) {
  for (auto& watched : peers_)
    if (watched.peer == peer) return fate_of(watched);
  return PeerFate::closed;
}

}  // namespace penstock::transport
