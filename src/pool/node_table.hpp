// Which hosts have joined. A node number is an index into the table, which the bakery of the pool's
// lock uses as its participant.
//
// How a process finds its node's number, holding the host lock:
//   1. an entry with its boot id (and emulated index): that one;
//   2. else an entry with its machine id and another boot id: the host was restarted, the entry is
//      taken over when nobody of the old incarnation shows life for a lease. Cloned machines may
//      share a machine id: two that take over at once are told apart by writing, waiting and
//      reading again (Fischer);
//   3. else the node is new: a name from the splitter grid makes it a participant of the
//      registration lock, under which it takes a free entry.
#pragma once

#include <memory>
#include <optional>

#include "pool/heartbeat.hpp"
#include "pool/liveness.hpp"

namespace penstock::pool {

struct NodeSeat {
  std::uint32_t node = 0;
  std::uint64_t attaching_token = 0;  ///< of this process while it attaches
};

class NodeTable {
 public:
  NodeTable(const coherence::Memory& memory, std::byte* base, const Superblock& superblock)
      : memory_(memory), base_(base), superblock_(superblock) {}

  std::optional<NodeLine> read(std::uint32_t node) const;

  struct Joiner {
    const HostIdentity& host;
    const ProcessIdentity& process;
    std::optional<std::uint32_t> emulated_node;
    const ProcessTable& processes;
    const AttachingTable& attaching;
    Liveness& liveness;
    std::unique_ptr<Heartbeat>& heartbeat;  ///< started here, for the attaching process
    /// After each beat of the attaching process: ends the process if it was taken for dead.
    std::function<void(std::uint64_t token)> heed;
    const std::string& spec;
  };
  /// The number of a host's emulated nodes, from 0, that have no entry and would find none free.
  std::uint32_t without_entry(const HostIdentity& host, std::uint32_t emulated_nodes) const;
  /// The host lock is held. Errors: no_slots, deadline.
  Result<NodeSeat> join(const Joiner& joiner) const;

 private:
  std::optional<NodeSeat> join_own(const Joiner& joiner) const;
  std::optional<NodeSeat> sit_down(const Joiner& joiner, std::uint32_t node,
                                   std::uint32_t name) const;
  std::optional<NodeSeat> take_over(const Joiner& joiner) const;
  Result<NodeSeat> register_new(const Joiner& joiner) const;
  Result<std::uint32_t> take_free_entry(const Joiner& joiner, std::uint32_t name) const;
  /// Watches for at most a lease; stops as soon as a process shows life.
  bool incarnation_is_dead(const Joiner& joiner, std::uint32_t node, const NodeLine& line) const;
  /// How often a node has joined under `name`.
  static std::uint64_t visits_of(const Joiner& joiner, std::uint32_t name);
  std::uint64_t visit(const Joiner& joiner, std::uint32_t name) const;
  void publish(std::uint32_t node, const NodeLine& line) const;
  std::uint64_t place(std::uint32_t node) const {
    return superblock_.nodes_offset + std::uint64_t{node} * sizeof(NodeLine);
  }

  coherence::Memory memory_;
  std::byte* base_;
  Superblock superblock_;
};

}  // namespace penstock::pool
