// Answers questions about the processes that are attached to a pool.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "device/device.hpp"
#include "device/pool_mappings.hpp"
#include "pool/process_record.hpp"

namespace penstock::pool {

class Liveness;
class OwnSlot;
struct SlotView;
struct Tables;

/// Thread-safe.
class Members final : public device::PoolMappings::Attachments {
 public:
  Members(const device::Device& device, const Tables& tables, Liveness& liveness, OwnSlot& own)
      : device_(device), tables_(tables), liveness_(liveness), own_(own) {}

  std::vector<ProcessRecord> processes() const;
  /// True if the process is attached under this token, was not found dead and has a valid lease. A
  /// stopped process (SIGSTOP) is alive until its lease (PENSTOCK_LEASE_MS) expires, and on the
  /// same host as long as it exists. A process that is found dead by its lease stays dead: a
  /// verdict is published, and the process exits if it resumes. For the own token: Pool::confirm(),
  /// then true. Costs a system call: for waits, not for hot paths.
  bool alive(std::uint64_t token) const;
  /// True if its slot says attached and it is not alive. Reads a few lines, as alive().
  bool died(std::uint64_t token) const;
  /// True if another process has declared the process of `token` dead, by its lease. If false, a
  /// process that learns of that death later sees everything that the dead one had published before
  /// a full_fence. One device access.
  bool declared_dead(std::uint64_t token) const;
  /// "rank 3 (pid 1234 on host a, node 1)", from the record of `token`; also for dead processes.
  std::string describe(std::uint64_t token) const;
  /// Watches each attached process until its liveness is certain. On another host that takes until
  /// it shows life, or a lease. Errors: deadline.
  Result<void> make_certain() const;

  /// Node of the process, also if it has detached or died; nullopt if its slot has a new owner.
  std::optional<std::uint32_t> node_of(std::uint64_t token) const;
  /// As node_of() for each token; adjacent slots take one device access.
  std::vector<std::optional<std::uint32_t>> nodes_of(
      const std::vector<std::uint64_t>& tokens) const;
  /// Nodes whose caches this process can flush: its own, and in modes in which emulated nodes share
  /// their host's caches, all nodes of this host.
  std::vector<std::uint32_t> nodes_of_these_caches() const;
  /// How many of this host's emulated nodes 0 to `emulated_nodes` - 1 cannot join any more, because
  /// the node table is full.
  std::uint32_t nodes_without_entry(std::uint32_t emulated_nodes) const;

  struct Member {
    std::uint32_t slot;
    std::uint64_t token;
  };
  /// Processes attached on this node, from their current lines; includes dead ones that are not
  /// reaped yet. One serialized device access, and one for each 64 slots of the node.
  std::vector<Member> of_this_node() const;
  /// Number of attached living processes on this host, this one included. May include one that has
  /// just ended.
  std::uint32_t local_processes() const;
  /// True if a process of this host is attached under this token and still exists. Reads two lines.
  bool attached_on_this_host(std::uint64_t token) const;

  // for PoolMappings
  std::vector<device::PoolMappings::Attachment> of_this_process() const override;
  bool still_attached(const device::PoolMappings::Attachment& attachment) const override;

  /// The deaths that alive() has reported and this has not returned yet.
  std::set<std::uint64_t> take_reported_deaths() const;

 private:
  std::vector<SlotView> slots_of_this_host(const std::vector<std::uint32_t>& nodes) const;

  const device::Device& device_;
  const Tables& tables_;
  Liveness& liveness_;
  OwnSlot& own_;
  mutable std::mutex deaths_;
  mutable std::set<std::uint64_t> reported_, taken_;  // tokens
};

}  // namespace penstock::pool
