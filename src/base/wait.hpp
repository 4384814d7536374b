// The one way to wait: deadline, dead-peer check, and spin -> yield -> sleep. Used everywhere.
#pragma once

#include <cstdint>
#include <functional>

#include "base/awake.hpp"
#include "base/status.hpp"

namespace penstock::base {

/// How a wait passes its time. Spinning is fastest while the peer has a core of its own; where
/// ranks outnumber cores it only keeps the peer from running.
struct WaitPolicy {
  std::uint32_t spins = 2000;               ///< polls before the first yield
  std::uint32_t yields = 20000;             ///< polls by sched_yield before the first sleep
  std::uint64_t sleep_ns = 100'000;         ///< length of each sleep after that, at first
  std::uint64_t late_sleep_ns = 2'000'000;  ///< and at most, when it has waited for long

  /// For this process now: spins little when `runnable` processes exceed the cores it may use
  /// (affinity mask and cgroup quota), and the more they are, the sooner and the longer it sleeps.
  /// PENSTOCK_SPIN overrides the number of spins.
  static WaitPolicy for_processes(std::uint32_t runnable);
};

/// Checks the peer that is waited for: returns an error when it is dead. Called at most every 20
/// ms.
using DeadCheck = std::function<Result<void>()>;

/// The default deadline of waits: PENSTOCK_TIMEOUT_MS, 60 s.
std::uint64_t default_timeout_ns();

/// One wait. `pause()` after each failed poll; an error ends the wait. Time in which this process
/// was stopped does not count. Not thread-safe.
class Waiter {
 public:
  /// `what` names the wait in the deadline's message. `timeout_ns` 0: default_timeout_ns().
  Waiter(const char* what, std::uint64_t timeout_ns, DeadCheck dead_check = {},
         WaitPolicy policy = {});
  /// Errors: deadline, or that of the dead check.
  Result<void> pause();
  std::uint64_t waited_ns() { return awake_.now_ns(); }
  /// What is waited for is near: spins and yields again before it sleeps.
  void spin_again() { polls_ = 0; }

 private:
  Result<void> slow_checks();
  const char* what_;
  std::uint64_t timeout_ns_;
  AwakeClock awake_;
  std::uint64_t next_check_ns_;
  std::uint64_t looked_ns_ = 0;  ///< how long it had waited at the last look at the clock
  std::uint64_t polls_ = 0;
  DeadCheck dead_check_;
  WaitPolicy policy_;
};

/// Backs off in a polling loop of the caller (a completion queue that is read again and again):
/// `spent()` after an empty poll, `busy()` after a fruitful one. Never sleeps: the caller's loop
/// may have other work.
class Backoff {
 public:
  explicit Backoff(WaitPolicy policy = {}) : policy_(policy) {}
  void set(WaitPolicy policy) { policy_ = policy; }
  const WaitPolicy& policy() const { return policy_; }
  void busy() { polls_ = 0; }
  /// Counts an empty poll. True: give the core away, best with no lock held.
  bool spent() { return ++polls_ > policy_.spins; }
  static void yield();

 private:
  WaitPolicy policy_;
  std::uint32_t polls_ = 0;
};

/// Number of CPUs this process may use: affinity mask bounded by the cgroup's quota.
std::uint32_t usable_cpus();

}  // namespace penstock::base
