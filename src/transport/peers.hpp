// State that an endpoint keeps for each peer: address, channels, counts, and whether it has ended.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "pool/members.hpp"
#include "transport/peer_watch.hpp"
#include "transport/rx_channel.hpp"
#include "transport/transport.hpp"
#include "transport/tx_channel.hpp"

namespace penstock::transport {

struct PeerState {
  Address address{};
  bool resolved = false;  ///< by resolve(); sends are allowed
  /// Endpoints of the slot up to this generation have ended or are faulty, and the user was told
  /// so. Nothing is sent to them, and messages from them are ignored.
  std::uint32_t dead_generation = 0;
  std::unique_ptr<TxChannel> tx;
  std::unique_ptr<RxChannel> rx;
  std::string description;  ///< of the peer that ended
  EndpointStats counts;     ///< messages exchanged with the endpoint of `counted_generation`
  std::uint32_t counted_generation = 0;
  bool active = false;            ///< the poller polls `rx`
  std::uint32_t empty_polls = 0;  ///< consecutive empty polls of the active channel
  bool data_missing = false;      ///< the last look did not find data that the sender published

  /// Compares generations modulo 2^32.
  bool gone(std::uint32_t generation) const {
    return dead_generation != 0 && static_cast<std::int32_t>(generation - dead_generation) <= 0;
  }
  bool dead() const { return gone(address.generation); }
  /// True unless `rx` belongs to an ended endpoint. Its sender may be a new owner of the slot that
  /// is not resolved yet.
  bool has_live_rx() const { return rx && !gone(rx->source_generation()); }
  /// True if `rx` belongs to a later endpoint of the slot.
  bool is_after(std::uint32_t generation) const {
    return rx && static_cast<std::int32_t>(generation - rx->source_generation()) < 0;
  }
  /// True if the peer still has messages to take, or may store into a buffer of this endpoint's
  /// user.
  bool uses_our_memory() const {
    const bool sends = tx && !dead() && !tx->consumed();
    return sends || (has_live_rx() && rx->cleared());
  }
};

/// States are allocated on demand, 64 neighbours together: a pool may have thousands of peers.
class Peers {
  static constexpr std::size_t group_peers = 64;
  using Group = std::array<PeerState, group_peers>;

 public:
  Peers(pool::Pool& pool, const EndpointTable& table)
      : watch(pool, table),
        pool_(pool),
        size_(table.count()),
        groups_(table.count() / group_peers + 1) {}

  std::size_t size() const { return size_; }
  PeerState& operator[](Peer peer) {
    const auto& group = groups_[peer / group_peers];
    return group ? (*group)[peer % group_peers] : make(peer);
  }
  const PeerState& operator[](Peer peer) const {
    static const PeerState no_peer;
    const auto& group = groups_[peer / group_peers];
    return group ? (*group)[peer % group_peers] : no_peer;
  }
  /// The peers that have a state, by index: [0, known()).
  std::size_t known() const { return group_peers * made_.size(); }
  Peer peer_of(std::size_t number) const {
    return static_cast<Peer>(group_peers * made_[number / group_peers] + number % group_peers);
  }

  std::string describe(Peer peer) const { return pool_.describe(watch.token(peer)); }
  bool on_this_node(Peer peer) const {
    return pool_.members().node_of(watch.token(peer)) == pool_.node();
  }
  /// The counts for the endpoint of this generation in the slot.
  EndpointStats& counts_of(Peer peer, std::uint32_t generation);
  /// The sum over all peers, earlier endpoints of their slots, and messages to this endpoint
  /// itself.
  EndpointStats all_counts() const;

  PeerWatch watch;
  EndpointStats other_counts;  ///< for itself, and for earlier endpoints of the peers' slots

 private:
  pool::Pool& pool_;
  PeerState& make(Peer peer);

  std::size_t size_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::uint32_t> made_;  ///< existing groups, in order of allocation
};

}  // namespace penstock::transport
