// Runs a process group's collectives one after the other, in the order in which they were called:
// in a thread of its own, or in the caller's where nothing is under way.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace penstock::torch {

class Worker {
 public:
  Worker() : state_(std::make_shared<State>()) {}
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Runs `task` after those before it. It does not throw. The last thing that a task does may be
  /// to call others of ours, and to wait for them: they are run by another thread.
  void later(std::function<void()> task);
  /// Runs `task` in this thread before it returns, if nothing is under way or waits. Else false.
  template <class Task>
  bool now(const Task& task) {
    {
      const std::lock_guard<std::mutex> guard(state_->mutex);
      if (state_->busy || !state_->tasks.empty() || state_->stopped) return false;
      state_->begin();
    }
    task();
    done();
    return true;
  }
  /// Waits until nothing is under way. False: not within `limit`.
  bool drain(std::chrono::milliseconds limit);
  /// Whether this thread runs a task: neither this one nor those behind it end before it returns.
  bool is_in_task() const;
  /// Takes no more tasks; those that wait are run (and should fail quickly). Ends the threads, and
  /// waits for others that run a task; not for its own, which may be what a task does last.
  void stop();
  bool stopped() const;

 private:
  /// Also of threads that outlive the worker: one that has destroyed it in a task.
  struct State {
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    bool busy = false;   ///< a task runs ...
    std::thread::id by;  ///< ... in this thread
    bool stopped = false;
    int draining = 0;      ///< threads in drain()
    std::thread::id runs;  ///< the thread that takes tasks
    void begin() {
      busy = true;
      by = std::this_thread::get_id();
    }
  };
  static void run(const std::shared_ptr<State>& state);
  void start();
  void done();

  std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;  ///< the last one takes tasks, if any
};

}  // namespace penstock::torch
