// The first piece of an endpoint's memory. When a job starts all its processes need one at about
// the same time, and all would wait for the pool's lock. Whoever of a node has it makes those of
// all that have none yet.
#pragma once

#include <set>
#include <vector>

#include "transport/endpoint_table.hpp"

namespace penstock::transport {

/// Time to wait for the pool's lock, which a stopped process may hold, where the work can also be
/// done later, or done without.
inline constexpr std::uint64_t briefly_ns = 10'000'000;

/// That of one endpoint, which is the first of its process: the slot is its own.
class FirstPiece {
 public:
  static constexpr std::uint64_t bytes = 32 << 10;

  FirstPiece(arena::Arena& arena, const EndpointTable& table, const Address& owner)
      : arena_(&arena), table_(table), owner_(owner) {}

  /// Whether take() may be called: it gives one piece, once, to a process's own endpoint.
  bool is_left() const;
  /// Waits for the pool's lock, `timeout_ns` at most (0: the default), unless the piece is there
  /// before. Errors: no_space, deadline.
  Result<arena::Object> take(std::uint64_t timeout_ns);
  /// When the endpoint has closed: gives back what others have made for it in vain.
  void decline();

 private:
  /// The first of a process of this node.
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
  std::vector<Endpoint> asked_;  ///< those of others()
};

}  // namespace penstock::transport
