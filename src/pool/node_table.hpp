// Which hosts have joined. A node number is an index into the table, which the bakery of the pool's
// lock uses as its participant.
//
// How a process finds its node's number, holding the host lock:
//   1. an entry with its boot id (and emulated index): that one. Hints say where it stands;
//   2. else an entry with its machine id and another boot id: the host was restarted, the entry is
//      taken over when nobody of the old incarnation shows life for a lease. Cloned machines may
//      share a machine id: two that take over at once are told apart by writing, waiting and
//      reading again (Fischer);
//   3. else the host is new: registration.hpp. It takes an entry that no host has had, or takes
//      over one that its host needs no more.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "pool/heartbeat.hpp"
#include "pool/liveness.hpp"

namespace penstock::pool {

struct NodeSeat {
  std::uint32_t node = 0;
  std::shared_ptr<Visit> visit;  ///< of this process while it attaches
};

/// Nodes with processes that are attached, or whose memory was not given back yet; nullopt: a slot
/// does not say of which node it is.
std::optional<std::set<std::uint32_t>> nodes_of_owners(const ProcessTable& processes);

class NodeTable {
 public:
  NodeTable(const coherence::Memory& memory, std::byte* base, const Superblock& superblock)
      : memory_(memory), base_(base), superblock_(superblock) {}

  std::optional<NodeLine> read(std::uint32_t node) const;

  struct Entry {
    std::uint32_t node = 0;
    NodeLine line;      ///< as read, whole or not
    bool whole = true;  ///< false: its host may still hold the number
    bool stands() const { return whole && line.incarnation != 0; }
    bool taken() const { return !whole || line.incarnation != 0; }
  };
  /// Those that were ever taken, and some behind them; one device access for 64 of them.
  std::vector<Entry> entries() const;

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
    /// Is there something that the caches of this node must be flushed for?
    std::function<bool(std::uint32_t node)> must_flush;
    const std::string& spec;
  };
  /// The number of a host's emulated nodes, from 0, that have no entry and would find none that
  /// is free, or that its host does not need.
  std::uint32_t without_entry(const HostIdentity& host, std::uint32_t emulated_nodes,
                              const std::function<bool(std::uint32_t node)>& needed) const;
  /// The host lock is held. Errors: no_slots, deadline.
  Result<NodeSeat> join(const Joiner& joiner) const;

  // for the registration of new hosts, under its lock
  /// False: it is taken.
  bool take_free_entry(const Joiner& joiner, std::uint32_t node) const;
  /// Enters this host in place of another one, none of whose processes lives. False: it lives, or
  /// has come back.
  bool replace(const Joiner& joiner, std::uint32_t node, const NodeLine& line) const;

  /// Begins a visit at a line of the attaching processes.
  static void begin(const Joiner& joiner, const std::shared_ptr<Visit>& visit, bool apart);
  /// What an attaching process does at each beat; `apart`: see AttachingLine.
  static Heartbeat::Beat beat_of(const std::shared_ptr<Visit>& visit, bool apart,
                                 std::function<void(std::uint64_t token)> heed);

 private:
  std::optional<NodeSeat> join_own(const Joiner& joiner) const;
  /// `since_ns`: of a look that found the entry to be this host's.
  std::optional<NodeSeat> sit_down(const Joiner& joiner, std::uint32_t node,
                                   std::uint64_t since_ns) const;
  bool stands_now(const Joiner& joiner, std::uint32_t node, const NodeLine& line) const;
  std::optional<NodeSeat> take_over(const Joiner& joiner) const;
  static NodeLine entry_of(const Joiner& joiner, std::uint64_t incarnation);
  /// Watches for at most a lease; stops as soon as a process shows life.
  bool incarnation_is_dead(const Joiner& joiner, std::uint32_t node) const;
  /// How often processes have attached on that node.
  static std::uint64_t visits_of(const Joiner& joiner, std::uint32_t node);
  PlaceLine hints(std::uint64_t hash) const;
  void hint(const Joiner& joiner, std::uint32_t node) const;
  std::uint64_t place_of_hints(std::uint64_t hash) const;
  void publish(std::uint32_t node, const NodeLine& line) const;
  std::uint64_t place(std::uint32_t node) const {
    return superblock_.nodes_offset + std::uint64_t{node} * sizeof(NodeLine);
  }

  coherence::Memory memory_;
  std::byte* base_;
  Superblock superblock_;
};

}  // namespace penstock::pool
