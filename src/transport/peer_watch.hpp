// Watches which peers are still present; checked periodically, never on the hot path.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "transport/endpoint_table.hpp"
#include "transport/transport.hpp"

namespace penstock::transport {

enum class PeerFate { present, closed, dead, faulty };

class PeerWatch {
 public:
  PeerWatch(pool::Pool& pool, const EndpointTable& table) : pool_(pool), table_(table) {}

  /// Begins to watch; `token`: owning process of the endpoint.
  void add(Peer peer, std::uint32_t generation, std::uint64_t token);
  bool watched(Peer peer, std::uint32_t generation) const;
  std::uint64_t token(Peer peer) const;
  /// The generation of the watched endpoint in this slot; 0: none is watched.
  std::uint32_t generation(Peer peer) const;

  /// Checks a few peers per call, in turn. Calls gone(peer, generation, fate, description) once for
  /// each peer that has ended. A dead peer is reported by the second look that finds it dead: a
  /// wait elsewhere in this process that depends on the peer and drives this endpoint checks more
  /// often, and should report first what it waited for.
  template <class Gone>
  void look(Gone&& gone) {
    const std::size_t number = peers_.size() < peers_a_look ? peers_.size() : peers_a_look;
    for (std::size_t i = 0; i < number && !peers_.empty(); ++i) {
      next_ = (next_ + 1) % peers_.size();
      const PeerFate fate = fate_of(peers_[next_]);
      if (fate == PeerFate::present) continue;
      if (fate == PeerFate::dead && !std::exchange(peers_[next_].found_dead, true)) continue;
      const Watched watched = peers_[next_];
      peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(next_));
      next_ = (next_ == 0 ? peers_.size() : next_) - 1;  // skips no peer and visits none twice
      gone(watched.peer, watched.generation, fate, pool_.describe(watched.token));
    }
  }
  /// Checks one peer at once.
  PeerFate fate(Peer peer);

 private:
  static constexpr std::size_t peers_a_look = 16;
  static constexpr unsigned max_torn_looks = 50;
  struct Watched {
    Peer peer;
    std::uint32_t generation;
    std::uint64_t token;
    unsigned torn_looks = 0;  ///< consecutive looks that found a torn line
    bool found_dead = false;  ///< an earlier look found it dead and did not report it
  };
  PeerFate fate_of(Watched& watched);

  pool::Pool& pool_;
  const EndpointTable& table_;
  std::vector<Watched> peers_;
  std::size_t next_ = 0;
};

}  // namespace penstock::transport
