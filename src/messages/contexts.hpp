// Records the contexts in which each peer has taken part, so that its death fails only receives
// that it could have matched. An MPI puts the communicator's context into the upper half of a tag,
// and the message's tag, which a receive may leave open, into the lower (docs/decisions/0022).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "transport/transport.hpp"

namespace penstock::messages {

constexpr std::uint32_t context_of(std::uint64_t tag) {
  return static_cast<std::uint32_t>(tag >> 32);
}

class Contexts {
 public:
  /// Records a message with this tag from or to the peer. Cheap if its context is the same as in
  /// the last call.
  void with(transport::Peer peer, std::uint64_t tag) {
    if (peer < of_.size() && of_[peer].last == tag >> 32) [[likely]]
      return;
    remember(peer, context_of(tag));
  }
  /// Removes and returns the contexts of a peer that is gone.
  std::vector<std::uint32_t> taken(transport::Peer peer) {
    if (peer >= of_.size()) return {};
    return std::exchange(of_[peer], {}).contexts;
  }

 private:
  struct Of {
    std::uint64_t last = ~0ull;
    std::vector<std::uint32_t> contexts;
  };
  [[gnu::noinline]] void remember(transport::Peer peer, std::uint32_t context) {
    if (of_.size() <= peer) of_.resize(peer + 1);
    Of& of = of_[peer];
    of.last = context;
    if (std::find(of.contexts.begin(), of.contexts.end(), context) == of.contexts.end())
      of.contexts.push_back(context);
  }

  std::vector<Of> of_;
};

}  // namespace penstock::messages
