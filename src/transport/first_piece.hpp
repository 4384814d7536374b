// The first piece of an endpoint's memory. At the start of a job all processes need one at about
// the same time, and would all wait for the pool's lock. The process of a node that gets the lock
// makes the pieces of all endpoints of the node that have none yet.
#pragma once

#include <set>
#include <vector>

#include "transport/endpoint_table.hpp"

namespace penstock::transport {

/// Limit of a wait for the pool's lock, which a stopped process may hold, for work that can be done
/// later or skipped.
inline constexpr std::uint64_t briefly_ns = 10'000'000;

/// The first piece of one endpoint, which must be the first endpoint of its process.
class FirstPiece {
 public:
  static constexpr std::uint64_t bytes = 32 << 10;

  FirstPiece(arena::Arena& arena, const EndpointTable& table, const Address& owner)
      : arena_(&arena), table_(table), owner_(owner) {}

  /// True if take() may be called: it gives one piece, once, to a process's first endpoint.
  bool is_left() const;
  /// Returns the piece, or waits for the pool's lock and makes it. `timeout_ns`: limit of the wait
  /// (0: the default). Errors: no_space, deadline.
  Result<arena::Object> take(std::uint64_t timeout_ns);
  /// Destroys the piece if others made it but the endpoint closed without using it.
  void decline();

 private:
  /// The first endpoint of a process of this node.
  struct Endpoint {
    std::uint32_t slot, generation, part;
    std::uint64_t token;
  };
  Endpoint own_endpoint() const;
  arena::Share share_of(const Endpoint& endpoint) const;
  std::vector<arena::Share> others();
  std::set<std::uint64_t> late() const;

  arena::Arena* arena_;
  EndpointTable table_;
  Address owner_;
  bool taken_ = false;
  std::vector<Endpoint> asked_;  ///< endpoints returned by others()
};

}  // namespace penstock::transport
