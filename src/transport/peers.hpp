// State that an endpoint keeps for each peer: address, channels, counts, and whether it has ended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/peer_watch.hpp"
#include "transport/rx_channel.hpp"
#include "transport/transport.hpp"
#include "transport/tx_channel.hpp"

namespace penstock::transport {

struct PeerState {
  Address address{};
  bool resolved = false;  ///< by resolve(): may be sent to
  /// Endpoints in the slot up to this generation have gone or are broken, and the user knows:
  /// nothing is sent to them, and messages from them are ignored.
  std::uint32_t dead_generation = 0;
  std::unique_ptr<TxChannel> tx;
  std::unique_ptr<RxChannel> rx;
  std::string description;  ///< of the peer that ended
  EndpointStats counts;     ///< exchanged with the endpoint of this generation
  std::uint32_t counted_generation = 0;
  bool active = false;              ///< the poller polls `rx`
  std::uint32_t polls_in_vain = 0;  ///< empty polls of the active channel, in a row
  bool misses = false;              ///< last look: the sender published something not found here

  /// Generations wrap around.
  bool gone(std::uint32_t generation) const {
    return dead_generation != 0 && static_cast<std::int32_t>(generation - dead_generation) <= 0;
  }
  bool dead() const { return gone(address.generation); }
  /// True if `rx` is not of an ended endpoint; its sender may be a new owner, not resolved yet.
  bool hears() const { return rx && !gone(rx->source_generation()); }
  /// The peer still has something to take, or may store into a buffer of this endpoint's user.
  bool uses_our_memory() const {
    const bool sends = tx && !dead() && !tx->consumed();
    return sends || (hears() && rx->cleared());
  }
};

class Peers {
 public:
  Peers(pool::Pool& pool, const EndpointTable& table)
      : watch(pool, table), pool_(pool), states_(table.count()) {}

  std::size_t size() const { return states_.size(); }
  PeerState& operator[](Peer peer) { return states_[peer]; }
  const PeerState& operator[](Peer peer) const { return states_[peer]; }
  auto begin() { return states_.begin(); }
  auto end() { return states_.end(); }

  std::string describe(Peer peer) const { return pool_.describe(watch.token(peer)); }
  bool on_this_node(Peer peer) const { return pool_.node_of(watch.token(peer)) == pool_.node(); }
  /// The counts with the endpoint of this generation in the slot.
  EndpointStats& counts_of(Peer peer, std::uint32_t generation);
  /// The sum over all peers, earlier endpoints in their slots, and messages to itself.
  EndpointStats all_counts() const;

  PeerWatch watch;
  EndpointStats other_counts;  ///< with itself, and with earlier endpoints in the peers' slots

 private:
  pool::Pool& pool_;
  std::vector<PeerState> states_;
};

}  // namespace penstock::transport
