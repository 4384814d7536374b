// Watches which peers are still there; checked now and then, never on the hot path.
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

  /// Begins to watch; `token` is the process that owns the endpoint.
  void add(Peer peer, std::uint32_t generation, std::uint64_t token);
  bool watched(Peer peer, std::uint32_t generation) const;
  std::uint64_t token(Peer peer) const;
  /// The generation of the endpoint that is watched under this number; 0: none is.
  std::uint32_t generation(Peer peer) const;

  /// Checks a few peers, another few the next time. Calls gone(peer, generation, fate,
  /// description) once for each peer that has gone; of the dead at the second look that finds them
  /// so: who waits for one of them elsewhere in this process, and lets messages go on meanwhile,
  /// looks more often, and is to say first what it has waited for.
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
      next_ =
          (next_ == 0 ? peers_.size() : next_) - 1;  // no other is passed over, or looked at twice
      gone(watched.peer, watched.generation, fate, pool_.describe(watched.token));
    }
  }
  /// Checks one peer now.
  PeerFate fate(Peer peer);

 private:
  static constexpr std::size_t peers_a_look = 16;
  static constexpr unsigned max_vain_looks = 50;
  struct Watched {
    Peer peer;
    std::uint32_t generation;
    std::uint64_t token;
    unsigned looks_in_vain = 0;  ///< looks in a row that found a torn line
    bool found_dead = false;     ///< by a look, which did not report it
  };
  PeerFate fate_of(Watched& watched);

  pool::Pool& pool_;
  const EndpointTable& table_;
  std::vector<Watched> peers_;
  std::size_t next_ = 0;
};

}  // namespace penstock::transport
