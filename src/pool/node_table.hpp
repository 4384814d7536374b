// The hosts that have joined. A node number is an index into this table; the bakery of the pool's
// lock uses it as participant number.
//
// How a process finds its node's number while it holds the host lock:
//   1. An entry has its boot id (and emulated index): use it. Hints give the index.
//   2. An entry has its machine id and another boot id: the host was restarted. It takes the entry
//   over
//      after no process of the old incarnation has shown life for a lease. Cloned machines may
//      share a machine id; if two take over at once, writing, waiting and reading again decides
//      (Fischer).
//   3. Otherwise the host is new: registration.hpp. It takes an entry that no host has had, or
//   takes
//      over one that its host no longer needs.
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

/// Nodes with processes that are attached or whose memory was not freed yet; nullopt: some slot
/// does not identify its node.
std::optional<std::set<std::uint32_t>> nodes_of_owners(const ProcessTable& processes);

class NodeTable {
 public:
  NodeTable(const coherence::Memory& memory, std::byte* base, const device::Superblock& superblock)
      : memory_(memory), base_(base), superblock_(superblock) {}

  std::optional<NodeLine> read(std::uint32_t node) const;

  struct Entry {
    std::uint32_t node = 0;
    NodeLine line;      ///< as read, whole or not
    bool whole = true;  ///< false: its host may still hold the number
    bool registered() const { return whole && line.incarnation != 0; }
    bool taken() const { return !whole || line.incarnation != 0; }
  };
  /// All entries that were ever taken, and some after them; one device access per 64 entries.
  std::vector<Entry> entries() const;

  struct Joiner {
    const HostIdentity& host;
    const ProcessIdentity& process;
    std::optional<std::uint32_t> emulated_node;
    const ProcessTable& processes;
    const AttachingTable& attaching;
    Liveness& liveness;
    std::unique_ptr<Heartbeat>& heartbeat;  ///< started here, for the attaching process
    /// Exits the process if it was declared dead; called after each beat of the attaching process.
    std::function<void(std::uint64_t token)> exit_if_declared_dead;
    /// True if this node's caches must be flushed.
    std::function<bool(std::uint32_t node)> must_flush;
    const std::string& spec;
  };
  /// How many of a host's emulated nodes, from 0, have no entry and would find none that is free or
  /// not needed by its host.
  std::uint32_t without_entry(const HostIdentity& host, std::uint32_t emulated_nodes,
                              const std::function<bool(std::uint32_t node)>& needed) const;
  /// Requires the host lock. Errors: no_slots, deadline.
  Result<NodeSeat> join(const Joiner& joiner) const;

  // for the registration of new hosts, under the registration lock
  /// False: the entry is taken.
  bool take_free_entry(const Joiner& joiner, std::uint32_t node) const;
  /// Enters this host in place of another one without living processes. False: that one lives or
  /// has come back.
  bool replace(const Joiner& joiner, std::uint32_t node, const NodeLine& line) const;

  /// Begins a visit in a line of the attaching table.
  static void begin(const Joiner& joiner, const std::shared_ptr<Visit>& visit, bool unlocked);
  /// The heartbeat of an attaching process; `unlocked`: see AttachingLine.
  static Heartbeat::Beat beat_of(const std::shared_ptr<Visit>& visit, bool unlocked,
                                 std::function<void(std::uint64_t token)> exit_if_declared_dead);

 private:
  std::optional<NodeSeat> join_own(const Joiner& joiner) const;
  /// `since_ns`: time of a look that found this host's entry.
  std::optional<NodeSeat> take_seat(const Joiner& joiner, std::uint32_t node,
                                    std::uint64_t since_ns) const;
  bool is_unchanged(const Joiner& joiner, std::uint32_t node, const NodeLine& line) const;
  std::optional<NodeSeat> take_over(const Joiner& joiner) const;
  static NodeLine entry_of(const Joiner& joiner, std::uint64_t incarnation);
  /// Watches for at most a lease; stops as soon as a process shows life.
  bool incarnation_is_dead(const Joiner& joiner, std::uint32_t node) const;
  /// Number of visits of attaching processes on that node.
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
  device::Superblock superblock_;
};

}  // namespace penstock::pool
