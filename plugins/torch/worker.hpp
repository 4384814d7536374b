// Runs a process group's collectives one after the other, in call order: in a thread of its own, or
// in the caller's if nothing is in progress.
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

  /// Runs `task`, which must not throw, after all earlier tasks. As its last action a task may call
  /// more operations and wait for them; another thread then runs those.
  void later(std::function<void()> task);
  /// Runs `task` in this thread before it returns, if nothing is in progress or queued. Else
  /// returns false.
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
  /// Waits until nothing is in progress. False: not within `limit`.
  bool drain(std::chrono::milliseconds limit);
  /// Whether this thread is in a task. That task and all later ones cannot end before it returns.
  bool is_in_task() const;
  /// Accepts no more tasks, and runs those that are queued (which should fail quickly). Ends the
  /// threads, and waits for tasks in other threads, but not for a task of this thread, which may
  /// call this last.
  void stop();
  bool stopped() const;

 private:
  /// Shared with threads that outlive the worker, such as one that destroys it in a task.
  struct State {
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    bool busy = false;   ///< a task is running ...
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
