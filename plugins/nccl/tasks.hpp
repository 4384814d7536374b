// The queue of calls of a non-blocking communicator. A thread, started with the first call, runs
// them in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "nccl/abi.hpp"

namespace penstock::nccl {

class Tasks {
 public:
  Tasks() = default;
  /// Drops the tasks that have not begun, and waits for the running one.
  ~Tasks();
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  /// Queues `task` behind the earlier ones; it runs in the caller's current GPU context. After an
  /// error no further task begins.
  void post(std::function<Result()> task);
  bool is_idle() const;
  /// in_progress while a task is running or queued; then the first error, with its message in
  /// last_error(), or success.
  Result state() const;
  /// Waits until no task is running or queued.
  void await() const;
  /// Drops the tasks that have not begun.
  void drop();
  /// drop(), then await(), then clears the error.
  void start_anew();

 private:
  void run();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::function<Result()>> waiting_;
  bool busy_ = false, ends_ = false;
  Result failure_ = success;  ///< of the first task that failed
  std::string words_;
  std::thread thread_;
};

}  // namespace penstock::nccl
