// Statistics that an endpoint publishes for each peer, for `penstock ps --peers`.
#pragma once

#include <vector>

#include "transport/layout.hpp"
#include "transport/transport.hpp"

namespace penstock::transport {

/// Owns the arena objects, and destroys them at its end. Not on a hot path.
class PeerStatistics {
 public:
  /// Takes the pool's lock, as the destructor does.
  PeerStatistics(arena::Arena& arena, const Address& self);
  ~PeerStatistics();
  PeerStatistics(const PeerStatistics&) = delete;
  PeerStatistics& operator=(const PeerStatistics&) = delete;

  /// Makes a row for `peer`. May take the pool's lock, which making a channel takes anyway.
  void make_room(Peer peer);
  /// Publishes a changed row. Takes no lock: a peer that was stopped while it held the lock must
  /// not stop a process that waits for messages. Skips peers without a row. The caller does the
  /// store fence.
  void publish(Peer peer, std::uint32_t generation, const EndpointStats& counts);

 private:
  PeerStatisticsRow* row_of(Peer peer);
  bool make_piece();

  arena::Arena* arena_;
  Address self_;
  std::vector<arena::Object> pieces_;
  std::vector<PeerStatisticsRow> rows_;  ///< as published
  std::vector<std::uint32_t> row_of_;    ///< by peer; 0: none, else number + 1
  bool full_ = false;                    ///< the pool has no space for more
};

}  // namespace penstock::transport
