// The calls that a communicator that does not block has still to make. A thread, started for the
// first of them, makes one after the other.
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
  /// Drops the tasks that have not begun, and waits for the one that is under way.
  ~Tasks();
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  /// Runs `task` after the earlier ones, in the caller's current context of a GPU. After an error
  /// no task is begun.
  void post(std::function<Result()> task);
  bool is_idle() const;
  /// in_progress while a task is under way or waits; then the first error, with its words in
  /// last_error().
  Result state() const;
  /// Waits until no task is under way or waiting.
  void await() const;
  /// Drops the tasks that have not begun.
  void drop();
  /// drop(), then await(); forgets an error.
  void start_anew();

 private:
  void run();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::function<Result()>> waiting_;
  bool busy_ = false, ends_ = false;
  Result failure_ = success;  ///< of the first that failed
  std::string words_;
  std::thread thread_;
};

}  // namespace penstock::nccl
