// Publishes the state of an endpoint in the pool, for `penstock ps`: its counts, in total and for
// each peer, and its current wait. Not on a hot path.
#pragma once

#include <span>
#include <string>

#include "transport/peer_statistics.hpp"
#include "transport/peers.hpp"

namespace penstock::transport {

class Publisher {
 public:
  Publisher(arena::Arena& arena, const EndpointTable& table, const Address& self, Peers& peers);

  /// Makes a row for `peer` if there is none. May take the pool's lock.
  void make_room(Peer peer) { by_peer_.make_room(peer); }
  /// Publishes the counts and channel positions of some peers, in turn. The caller does the store
  /// fence; publish_totals() includes one.
  void publish_peers(std::uint64_t now_ns);
  void publish_totals();
  /// Publishes the endpoint's current wait, and since when no message has moved. `waiting`: peers
  /// with queued sends.
  void publish_activity(std::uint64_t now_ns, std::span<const Peer> waiting);
  /// True if no message has moved for a while, and the pool says so.
  bool is_idle() const { return !activity_.empty(); }

  /// True if report_waiting() would give a more precise text.
  bool wants_report_of_waiting() const { return wants_report_of_waiting_; }
  void report_waiting(const PendingReceives& pending);

 private:
  std::string waiting_text(std::span<const Peer> waiting) const;

  pool::Pool& pool_;
  Peers& peers_;
  PeerStatistics by_peer_;
  EndpointStats published_;                 ///< as added to the process's record
  std::size_t next_known_ = 0;              ///< index of the peer whose row is published next
  std::uint64_t moved_ = 0, moved_ns_ = 0;  ///< messages so far, and when that last changed
  std::string activity_;                    ///< as published
  bool wants_report_of_waiting_ = false;
};

}  // namespace penstock::transport
