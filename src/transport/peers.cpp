#include "transport/peers.hpp"

namespace penstock::transport {

PeerState& Peers::make(Peer peer) {
  const std::uint32_t number = peer / group_peers;
  groups_[number] = std::make_unique<Group>();
  made_.push_back(number);
  return (*groups_[number])[peer % group_peers];
}

EndpointStats& Peers::counts_of(Peer peer, std::uint32_t generation) {
  PeerState& state = (*this)[peer];
  if (state.counted_generation != generation) {
    other_counts += state.counts;
    state.counts = {};
    state.counted_generation = generation;
  }
  return state.counts;
}

EndpointStats Peers::all_counts() const {
  EndpointStats sum = other_counts;
  for (const std::uint32_t number : made_)
    for (const PeerState& peer : *groups_[number]) sum += peer.counts;
  return sum;
}

}  // namespace penstock::transport
