// Runs a process group's collectives one after the other, in the order in which they were called:
// in a thread of its own, or in the caller's where nothing is under way.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock::torch {

class Worker {
 public:
  Worker() = default;
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Runs `task` after those before it. It does not throw.
  void later(std::function<void()> task);
  /// Runs `task` in this thread before it returns, if nothing is under way or waits. Else false.
  template <class Task>
  bool now(const Task& task) {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      if (busy_ || !tasks_.empty() || stopped_) return false;
      begin();
    }
    task();
    done();
    return true;
  }
  /// Waits until nothing is under way. False: not within `milliseconds`.
  bool drain(int milliseconds);
  /// Takes no more tasks; those that wait are run (and should fail quickly). Ends the thread, and
  /// waits for other threads that run a task.
  void stop();
  bool stopped() const;

 private:
  void run();
  void begin() {
    busy_ = true;
    by_ = std::this_thread::get_id();
  }
  void done();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false;   ///< a task runs ...
  std::thread::id by_;  ///< ... in this thread
  bool stopped_ = false;
  int draining_ = 0;    ///< threads in drain()
  std::thread thread_;  ///< begun with the first task that waits
};

}  // namespace penstock::torch
