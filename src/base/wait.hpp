// The one way to wait: deadline, dead-peer check, and spin -> yield -> sleep. Used everywhere.
#pragma once

#include <cstdint>
#include <functional>

#include "base/awake.hpp"
#include "base/status.hpp"

namespace penstock::base {

/// How a wait passes its time. Spinning is fastest if the peer has a core of its own; if ranks
/// outnumber cores, it only keeps the peer from running.
struct WaitPolicy {
  std::uint32_t spins = 2000;               ///< polls before the first yield
  std::uint32_t yields = 20000;             ///< polls with sched_yield before the first sleep
  std::uint64_t sleep_ns = 100'000;         ///< length of a sleep at first
  std::uint64_t late_sleep_ns = 2'000'000;  ///< greatest length, when the wait has lasted long

  /// The policy for this process now: it spins little if `runnable` processes exceed the cores that
  /// it may use (affinity mask and cgroup quota), and sleeps sooner and longer the more they are.
  /// PENSTOCK_SPIN overrides the number of spins.
  static WaitPolicy for_processes(std::uint32_t runnable);
};

/// Checks the awaited peer: returns an error if it is dead. Called at most every 20 ms.
using DeadCheck = std::function<Result<void>()>;

/// The default deadline of waits: PENSTOCK_TIMEOUT_MS, 60 s.
std::uint64_t default_timeout_ns();

/// One wait. Call `pause()` after each failed poll; an error ends the wait. Time in which this
/// process was stopped does not count. Not thread-safe.
class Waiter {
 public:
  /// `what` names the wait in the deadline's message. `timeout_ns` 0: default_timeout_ns().
  Waiter(const char* what, std::uint64_t timeout_ns, DeadCheck dead_check = {},
         WaitPolicy policy = {});
  /// Errors: deadline, or the dead check's error.
  Result<void> pause();
  std::uint64_t waited_ns() { return awake_.now_ns(); }
  /// The awaited event is near: spins and yields again before it sleeps.
  void spin_again() { polls_ = 0; }

 private:
  Result<void> slow_checks();
  const char* what_;
  std::uint64_t timeout_ns_;
  AwakeClock awake_;
  std::uint64_t next_check_ns_;
  std::uint64_t looked_ns_ = 0;  ///< how long it had waited when it last read the clock
  std::uint64_t polls_ = 0;
  DeadCheck dead_check_;
  WaitPolicy policy_;
};

/// Backs off in a polling loop of the caller (a completion queue that is read again and again):
/// call `spent()` after an empty poll, `busy()` after a fruitful one. Never sleeps: the caller's
/// loop may have other work.
class Backoff {
 public:
  explicit Backoff(WaitPolicy policy = {}) : policy_(policy) {}
  void set(WaitPolicy policy) { policy_ = policy; }
  const WaitPolicy& policy() const { return policy_; }
  void busy() { polls_ = 0; }
  /// Counts an empty poll. Returns true if the caller should yield the core, best with no lock
  /// held.
  bool spent() { return ++polls_ > policy_.spins; }
  static void yield();

 private:
  WaitPolicy policy_;
  std::uint32_t polls_ = 0;
};

/// Returns the number of CPUs that this process may use: its affinity mask, bounded by the cgroup's
/// quota.
std::uint32_t usable_cpus();

}  // namespace penstock::base
