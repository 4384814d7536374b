// What an endpoint publishes about its conversations, peer by peer, for `penstock ps --peers`.
#pragma once

#include <vector>

#include "penstock/transport.hpp"
#include "transport/layout.hpp"

namespace penstock::transport {

/// Owns the arena objects; they go with it. Nothing of it is on a hot path.
class PeerRows {
 public:
  PeerRows(arena::Arena& arena, const Address& self) : arena_(&arena), self_(self) {}
  ~PeerRows();
  PeerRows(const PeerRows&) = delete;
  PeerRows& operator=(const PeerRows&) = delete;

  /// Publishes what has changed, of some rows. Takes the pool's lock when there are more peers than
  /// rows. Without space for more rows those peers are left out.
  void publish(Peer peer, std::uint32_t generation, const EndpointStats& counts);
  /// After a round of publish().
  void order();

 private:
  struct Known {
    Peer peer = 0;
    std::uint32_t generation = 0;
    EndpointStats counts;
  };
  Known* row_of(Peer peer);
  bool make_piece();

  arena::Arena* arena_;
  Address self_;
  std::vector<arena::Object> pieces_;
  std::vector<Known> rows_;            ///< as published
  std::vector<std::uint32_t> row_of_;  ///< by peer; 0: none, else number + 1
  bool full_ = false;                  ///< the pool has no space for more
  bool dirty_ = false;                 ///< published since the last order()
};

}  // namespace penstock::transport
