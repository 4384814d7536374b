#include "transport/peers.hpp"

namespace penstock::transport {

EndpointStats& Peers::counts_of(Peer peer, std::uint32_t generation) {
  PeerState& state = states_[peer];
  if (state.counted_generation != generation) {
    other_counts += state.counts;
    state.counts = {};
    state.counted_generation = generation;
  }
  return state.counts;
}

EndpointStats Peers::all_counts() const {
  EndpointStats sum = other_counts;
  for (const PeerState& peer : states_) sum += peer.counts;
  return sum;
}

}  // namespace penstock::transport
