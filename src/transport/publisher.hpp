// What an endpoint says of itself in the pool, for `penstock ps`: what it has exchanged, with all
// and with each peer, and what it waits for. Nothing of it is on a hot path.
#pragma once

#include <span>
#include <string>

#include "transport/peer_statistics.hpp"
#include "transport/peers.hpp"

namespace penstock::transport {

class Publisher {
 public:
  Publisher(arena::Arena& arena, const Address& self, Peers& peers);

  /// Sees to a row for `peer`. May take the pool's lock.
  void make_room(Peer peer) { by_peer_.make_room(peer); }
  /// Counts with some peers, others the next time, and how far the channels to them are. The caller
  /// orders it; publish_totals() does.
  void publish_peers();
  void publish_totals();
  /// Says since when nothing has moved, and what the endpoint does meanwhile. `waiting`: the peers
  /// to which something is queued.
  void publish_activity(std::uint64_t now_ns, std::span<const Peer> waiting);
  /// Nothing has moved for a while, and the pool says so.
  bool stands_still() const { return !activity_.empty(); }

  /// What the user waits for would be the better text.
  bool wants_report_of_waiting() const { return wants_report_of_waiting_; }
  void report_waiting(const PendingReceives& pending);

 private:
  std::string waiting_text(std::span<const Peer> waiting) const;

  pool::Pool& pool_;
  Peers& peers_;
  PeerStatistics by_peer_;
  EndpointStats published_;                 ///< in the process's record
  Peer next_row_ = 0;                       ///< published next
  std::uint64_t moved_ = 0, moved_ns_ = 0;  ///< messages so far, and when that last changed
  std::string activity_;                    ///< as published
  bool wants_report_of_waiting_ = false;
};

}  // namespace penstock::transport
