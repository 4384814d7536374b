#include "pool/pool_lock.hpp"

#include <utility>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "pool/lease.hpp"
#include "pool/own_slot.hpp"

namespace penstock::pool {

namespace {

/// The rest of a time limit; 0 still means "the default".
std::uint64_t remaining_ns(std::uint64_t timeout_ns, std::uint64_t start_ns) {
  if (timeout_ns == 0) return 0;
  const std::uint64_t passed = base::now_ns() - start_ns;
  return passed < timeout_ns ? timeout_ns - passed : 1;
}

}  // namespace

Result<HostLock> PoolLock::lock_host() const {
  return HostLock::acquire(device_.lock_file(), 0);
}

sync::Lock PoolLock::among_nodes(std::uint64_t token) {
  const device::Superblock& superblock = device_.superblock();
  sync::Lock made(device_.memory(), device_.base() + superblock.lock_offset, superblock.max_nodes,
                  own_.node(), token, [this, token](std::uint64_t other) {
                    if (other == token) {
                      own_.confirm();
                      return true;
                    }
                    rival_ = other;
                    return liveness_.alive(other);
                  });
  made.exclude_by([this](std::uint64_t other) { return liveness_.of_this_host(other); });
  return made;
}

void PoolLock::open() {
  among_nodes_.emplace(among_nodes(own_.token()));
}

Result<Pool::Guard> PoolLock::lock(std::uint64_t timeout_ns, const std::function<bool()>& unless) {
  const std::string& spec = device_.spec();
  if (own_.options().observer) {
    return fail(ErrorCode::invalid_argument,
                "an observer of pool {} cannot lock it; attach without "
                "observer",
                spec);
  }
  if (!device_.opened_here()) {
    return fail(ErrorCode::invalid_argument,
                "this process was forked by one that is attached to pool {}, and cannot use its "
                "parent's attachment: attach again here",
                spec);
  }
  // After a failed wait, for example for an overwritten lock, the process often needs the lock
  // again. Later waits are shorter, so that all together do not take much longer than one.
  const bool whole_wait = timeout_ns == 0;
  const std::uint64_t whole_ns = base::default_timeout_ns();
  const std::uint64_t failed_ns = failed_wait_ns_;
  if (whole_wait && failed_ns != 0 && base::now_ns() - failed_ns < whole_ns)
    timeout_ns = whole_ns / 4;  // longer than a lease, in case the holder has died
  const auto taken = take(timeout_ns, unless);
  if (taken) failed_wait_ns_ = 0;
  if (taken) return Pool::Guard(this);
  if (taken.error().code != ErrorCode::deadline) return unexpected(taken.error());
  if (whole_wait) failed_wait_ns_ = base::now_ns();
  return fail(ErrorCode::deadline, "{}; what its processes do: penstock ps {}",
              taken.error().message, spec);
}

Result<void> PoolLock::take(std::uint64_t timeout_ns, const std::function<bool()>& unless) {
  const std::uint64_t start_ns = base::now_ns();
  base::Waiter waiter("another thread to leave the pool's lock", timeout_ns);
  while (held_.exchange(true, std::memory_order_acquire)) {
    PENSTOCK_TRY(waiter.pause());
  }
  auto host_locked =
      HostLock::acquire(device_.lock_file(), remaining_ns(timeout_ns, start_ns), unless);
  if (!host_locked) {
    held_.store(false, std::memory_order_release);
    return unexpected(host_locked.error());
  }
  if (auto locked = among_nodes_->acquire(remaining_ns(timeout_ns, start_ns)); !locked) {
    host_locked = unexpected(Error{});  // releases the host lock before other threads try
    held_.store(false, std::memory_order_release);
    if (locked.error().code != ErrorCode::deadline) return locked;
    return fail(ErrorCode::deadline, "{}; it is {}", locked.error().message,
                tables_.describe(rival_));
  }
  host_lock_.emplace(std::move(*host_locked));
  return {};
}

void PoolLock::release() {
  own_.confirm();  // a late release would overwrite the line of the node number's new owner
  if (std::exchange(reclaiming_, false)) tables_.blocks.unmark_reclaim();
  among_nodes_->release();
  host_lock_.reset();
  held_.store(false, std::memory_order_release);
}

void PoolLock::begin_reclaim() {
  if (std::exchange(reclaiming_, true)) return;
  own_.confirm();
  tables_.blocks.mark_reclaim(own_.token());
  await_all_attaching();
}

void PoolLock::clear_mark() {
  reclaiming_ = false;
  own_.confirm();
  tables_.blocks.unmark_reclaim();
}

/// The attaching process takes no lock of the pool during that time; if it is stopped, it is
/// declared dead after a lease.
void PoolLock::await_attaching(std::uint32_t node) const {
  base::Waiter waiter("a process of another node to attach",
                      certainty_limit_ns(liveness_.lease_ns()), {},
                      base::WaitPolicy{.spins = 20, .yields = 100, .sleep_ns = 1'000'000});
  do {
    const auto visit = tables_.attaching.look(node);
    if (visit.whole && (visit.line.beat == 0 || visit.line.unlocked == 0)) return;
    if (!liveness_.alive(attaching_token(visit.line.generation, node))) return;
  } while (waiter.pause());
}

void PoolLock::await_all_attaching() const {
  for (const std::uint32_t node : tables_.attaching.nodes_attaching_unlocked())
    await_attaching(node);
}

void PoolLock::repair_line() {
  // once is harmless: another process of this host may be writing the line
  const bool intact = among_nodes_->intact();
  if (!std::exchange(line_suspect_, !intact) || intact) return;
  if (take(beat_period_ns(liveness_.lease_ns()))) release();
}

Pool::Guard::~Guard() {
  if (lock_ == nullptr) return;
  if (lock_->device_.opened_here()) lock_->release();  // otherwise the parent holds it
}

}  // namespace penstock::pool
