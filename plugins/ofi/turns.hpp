// Serializes the calls that touch a domain's state: frequent ones, which its user serializes
// itself, and rare ones, which may come beside them. FI_THREAD_DOMAIN promises that no two calls
// come at once. But MPICH registers and closes the memory of its windows outside of its own locks,
// and programs call MPI from two threads although they asked for MPI_THREAD_FUNNELED.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/fork.hpp"

namespace penstock::ofi {

/// Dekker's algorithm: each side announces itself, and then checks whether the other has. The
/// frequent side uses plain loads and stores and no fence: the rare side has the kernel run a fence
/// on each CPU of this process between its own store and load (membarrier). Only the first thread
/// that makes a frequent call does without the mutex. All threads take it once another one makes a
/// frequent call, where the kernel has no such fence, and where `always` asks for it.
class Turns {
 public:
  /// `always`: several threads may make frequent calls. `one_promised`: whether the program has
  /// promised that one thread makes them all, asked when a second one does; null: not known.
  explicit Turns(bool always, int (*one_promised)() = nullptr);

  /// True if the mutex was taken: for leave(). Not recursive. In a forked child it takes none: a
  /// thread of the parent may have held the mutex when the process forked.
  bool enter() {
    if (owner_.load(std::memory_order_relaxed) == self()) [[likely]] {
      inside_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (!wanted_.load(std::memory_order_acquire)) [[likely]]
        return false;
      inside_.store(false, std::memory_order_release);
    }
    return enter_locked();
  }
  void leave(bool locked) {
    if (locked) return mutex_.unlock();
    inside_.store(false, std::memory_order_release);
  }

  /// Shuts all others out, of both kinds, when it returns. Some system calls; the first time some
  /// milliseconds. In a forked child, which has none of the threads that might be inside, nothing.
  void enter_alone();
  void leave_alone();

  /// True if frequent calls of several threads may meet.
  bool shared() const { return shared_.load(std::memory_order_relaxed); }

 private:
  /// This thread, by a number that no other living one has.
  static std::uintptr_t self() {
#if defined(__GNUC__) && !defined(__clang__)
    return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
#else
    return reinterpret_cast<std::uintptr_t>(::pthread_self());
#endif
  }

  bool enter_locked();
  void share();
  bool fence_everywhere();
  bool is_forked() const {
    return !origin_.here();
  }

  const base::Origin origin_;
  int (*const one_promised_)();
  std::atomic<std::uintptr_t> owner_{0};  ///< the thread that does without the mutex; 0: none yet
  std::atomic<bool> shared_;              ///< all take the mutex; `wanted_` stays
  std::atomic<bool> inside_{false};       ///< a frequent call, without the mutex
  std::atomic<bool> wanted_;              ///< a rare call is under way
  bool registered_ = false;               ///< with the kernel; guarded by the mutex
  std::mutex mutex_;
};

}  // namespace penstock::ofi
