// Who may touch a domain's state: calls that its user keeps apart by itself, and rare ones that it
// may not keep apart from these. FI_THREAD_DOMAIN promises both, but MPICH registers and closes the
// memory of its windows outside of its own locks.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <mutex>

namespace penstock::ofi {

/// As Dekker's algorithm: each says that it comes, and then looks whether the other has. The
/// frequent side does so without a fence, and without an atomic operation but loads and stores: the
/// rare side has the kernel run a fence on each CPU of this process between its own two
/// (membarrier). Where the kernel has none, and where `always` is asked for, all take the mutex.
class Turns {
 public:
  /// `always`: several threads may make frequent calls.
  explicit Turns(bool always);

  /// True if the mutex was taken: for leave(). Not recursive.
  bool enter() {
    if (!always_.load(std::memory_order_relaxed)) {
      inside_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (!wanted_.load(std::memory_order_acquire)) [[likely]]
        return false;
      inside_.store(false, std::memory_order_release);
    }
    mutex_.lock();
    return true;
  }
  void leave(bool locked) {
    if (locked) return mutex_.unlock();
    inside_.store(false, std::memory_order_release);
  }

  /// Shuts all others out, of both kinds, when it returns. Some system calls; the first time some
  /// milliseconds. In a forked child, which has none of the threads that might be inside, nothing.
  void enter_alone();
  void leave_alone();

 private:
  bool fence_everywhere();
  bool is_forked() const;

  std::atomic<bool> always_;
  const pid_t made_by_;
  std::atomic<bool> inside_{false};  ///< a frequent call, without the mutex
  std::atomic<bool> wanted_{false};  ///< a rare call is under way
  bool registered_ = false;          ///< with the kernel; of who holds the mutex
  std::mutex mutex_;
};

}  // namespace penstock::ofi
