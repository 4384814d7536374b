// The pool's lock: first among the threads of this attachment, then among the processes of this
// host (host_lock.hpp), then among nodes (sync::Lock). A process that reclaims under it also marks
// the pool, so that no other attaches without the lock (docs/protocols/pool.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "pool/host_lock.hpp"
#include "pool/pool.hpp"
#include "sync/sync.hpp"

namespace penstock::pool {

class Liveness;
class OwnSlot;
struct Tables;

class PoolLock {
 public:
  PoolLock(const device::Device& device, const Tables& tables, Liveness& liveness, OwnSlot& own)
      : device_(device), tables_(tables), liveness_(liveness), own_(own) {}

  /// As Pool::lock().
  Result<Pool::Guard> lock(std::uint64_t timeout_ns = 0, const std::function<bool()>& unless = {});

  /// Requires the lock. Call it before the first check which processes live or are attached:
  /// processes that attached without the lock are visible after it, and none attaches so until the
  /// lock is released.
  void begin_reclaim();

  // while attaching
  Result<HostLock> lock_host() const;
  /// The lock among nodes, for a process that already holds the host's lock.
  sync::Lock among_nodes(std::uint64_t token);
  /// From here on lock() works.
  void open();

  /// Ends a reclaim under that lock. Also clears the mark of a process that died while it
  /// reclaimed.
  void clear_mark();
  /// Waits until no process of `node` attaches without the lock.
  void await_attaching(std::uint32_t node) const;
  void await_all_attaching() const;

  /// Called at each beat. Other nodes wait for an overwritten line until its own node takes the
  /// lock again.
  void repair_line();

 private:
  friend class Pool::Guard;
  Result<void> take(std::uint64_t timeout_ns, const std::function<bool()>& unless = {});
  void release();

  const device::Device& device_;
  const Tables& tables_;
  Liveness& liveness_;
  OwnSlot& own_;
  bool reclaiming_ = false;                       // the reclaim mark is set; under the lock
  bool line_suspect_ = false;                     // damaged at the last beat
  std::atomic<bool> held_{false};                 // by a thread of this attachment
  std::atomic<std::uint64_t> failed_wait_ns_{0};  // last failed wait for the lock; 0: none since
  std::atomic<std::uint64_t> rival_{0};           // last holder or waiter before us in the lock
  std::optional<HostLock> host_lock_;
  std::optional<sync::Lock> among_nodes_;
};

}  // namespace penstock::pool
