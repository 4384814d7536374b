// Reclaiming dead processes: finds out which processes have died, records that their nodes' caches
// may hold dirty lines, and decides when their memory may be freed (docs/protocols/quarantine.md).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "device/device.hpp"

namespace penstock::pool {

class FlushTable;
class Liveness;
class Members;
class OwnSlot;
class PoolLock;
struct SlotView;
struct Tables;

class Reclaim {
 public:
  Reclaim(const device::Device& device, const Tables& tables, Liveness& liveness, OwnSlot& own,
          const Members& members, PoolLock& lock)
      : device_(device),
        tables_(tables),
        liveness_(liveness),
        own_(own),
        members_(members),
        lock_(lock) {}

  /// Called under the lock with dead processes, so that higher layers free their objects. Excludes
  /// processes whose job has living members, which may still write to those objects. The slots of
  /// the dead are released afterwards. The lock is released between groups of dead processes.
  using OnDead = std::function<void(const std::set<std::uint64_t>& tokens)>;
  /// Which processes are checked: `all`, or `near`, those of this node, which takes few reads. The
  /// first process of a node checks all in both cases.
  enum class Among : std::uint8_t { all, near };
  Result<std::uint32_t> reap(const OnDead& on_dead, Among among = Among::all);
  /// Announces that this process and those of `tokens`, which may belong to other jobs, may store
  /// to each other's memory. The memory that one of them leaves behind is then reclaimed only after
  /// the others have ended, as among the members of a job. Call it before the first such store, and
  /// before this process detaches: the announcement of either is enough. Takes the pool's lock,
  /// unless all have this process's job or the announcement stands already. Errors: not_found (one
  /// was killed, and its memory may have been freed); those of lock().
  Result<void> shares_with(std::span<const std::uint64_t> tokens);
  /// Other living processes may still store to this process's memory when it detaches: reap() frees
  /// it after the job has ended, like the memory of a dead process.
  void defer();
  /// Requires the lock. True if the memory of the process of `token` may be freed: it is dead, and
  /// no living process of its job may still write there. Also records the death, see flushes().
  bool may_reclaim(std::uint64_t token);
  /// Requires the lock. Call it before freeing memory that other processes may have stored to:
  /// records the deaths that Members::alive() has reported to this process, although the dead are
  /// not reaped yet.
  void record_known_deaths();
  /// Requires the lock. Call it before freeing memory without an agreement of its users: acts as if
  /// all attached processes had died.
  void record_unknown_deaths();
  /// True if a process of this host that was declared dead still exists and may store: a flush now
  /// would be too early. Reads a line of each slot.
  bool declared_dead_still_runs() const;
  /// Which nodes may hold dirty lines of the dead.
  const FlushTable& flushes() const;

  // for a process that attaches in place of a dead one
  /// True if a living process may still write to the memory of `dead`.
  bool peers_are_alive(const SlotView& dead) const;
  void record_deaths(const std::vector<SlotView>& dead) const;

 private:
  /// Two processes share memory if they have a job in common or one has announced the other.
  struct Sharing {
    std::set<std::string> jobs;
    std::uint64_t tokens = 0;       ///< TokenSet: the processes themselves
    std::uint64_t shares_with = 0;  ///< TokenSet: those that they announced

    bool with(const Sharing& others) const;
    void add(const Sharing& its);
    bool contains(const Sharing& its) const;
  };
  /// Of processes that share memory with the given ones: those in the table that have not detached,
  /// dead or alive; and the living.
  struct Peers {
    Sharing attached, living;
  };
  Sharing sharing_of(const SlotView& view, std::uint64_t if_unreadable) const;
  Peers peers_of(const Sharing& some) const;
  bool left_nothing_dirty(const SlotView& view, const Peers& peers) const;
  std::vector<std::uint32_t> find_suspects() const;
  std::vector<std::uint32_t> find_suspects_on_node() const;
  std::uint32_t reap_group(std::span<const std::uint32_t> suspects, const OnDead& on_dead);
  std::set<std::uint32_t> all_nodes() const;
  std::set<std::uint32_t> nodes_of_others() const;
  bool is_of_own_job(std::uint64_t token) const;
  Result<void> check_none_was_killed(const std::vector<std::uint64_t>& tokens) const;

  const device::Device& device_;
  const Tables& tables_;
  Liveness& liveness_;
  OwnSlot& own_;
  const Members& members_;
  PoolLock& lock_;
};

}  // namespace penstock::pool
