// A mutex whose holder can let waiting threads in while it works.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace penstock::base {

/// As std::mutex. A thread that waits for something else while it holds the mutex calls let_in()
/// now and then.
class HandoverMutex {
 public:
  void lock() {
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

  /// Called by the holder, which must be ready for anything that other threads may do. One load if
  /// no thread waits.
  /// no thread waits.
  void let_in() {
    if (waiting_.load(std::memory_order_relaxed) == 0) return;
    mutex_.unlock();
    // A mutex is not fair: a thread that unlocks and locks it again would find it free.
    for (int i = 0; i < max_yields && waiting_.load(std::memory_order_relaxed) != 0; ++i)
      std::this_thread::yield();
    lock();
  }

 private:
  static constexpr int max_yields = 1000;
  std::mutex mutex_;
  std::atomic<unsigned> waiting_{0};  ///< threads in lock()
};

}  // namespace penstock::base
