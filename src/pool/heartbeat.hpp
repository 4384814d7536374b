// The background thread that proves that this attachment is alive.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.hpp"

namespace penstock::pool {

class Heartbeat {
 public:
  /// One beat. Returns when others can see that this attachment lives; exits the process if it was
  /// declared dead.
  using Beat = std::function<void()>;

  /// The caller must have published the first beat.
  Heartbeat(std::uint64_t lease_ns, Beat beat);
  /// Waits for a beat in progress, not for the next one. After fork() the child has no such thread:
  /// there the object must be leaked, not destroyed.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Calls `beat` instead from now on, the first time at once; on return no earlier beat is in
  /// progress. `chores` run after each beat of the heartbeat's thread; if they take long, they
  /// delay only its next beat.
  void replace(Beat beat, std::function<void()> chores = {});

  /// Call it before an action that is forbidden to a dead process. Beats if the last beat is so old
  /// that others may have declared this process dead, and again if it was stopped within that beat.
  /// No system call otherwise. Returns base::coarse_ns().
  std::uint64_t confirm() {
    std::uint64_t now = base::coarse_ns();
    while (now >= certain_until_ns_.load(std::memory_order_acquire) && beat_now())
      now = base::coarse_ns();
    return now;
  }
  /// Publishes what has changed in the line of the lease at once. False in a forked child, which
  /// has no heartbeat.
  bool beat_now();

 private:
  void run();
  void beat_locked();
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::uint64_t period_ns_, certain_ns_;
  std::atomic<std::uint64_t> certain_until_ns_;  ///< by base::coarse_ns
  pid_t owner_;                                  ///< a forked child does not beat
  Beat beat_;
  std::function<void()> chores_;
  std::thread thread_;
};

}  // namespace penstock::pool
