// What a communicator that does not block has still to do: one call after the other, by a thread
// that it gets with the first.
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
  /// Waits until the task that is under way is over; no other one is begun.
  ~Tasks();
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  /// Runs `task` after those before it, in the context of a GPU that the caller has now. After an
  /// error it is not begun.
  void post(std::function<Result()> task);
  bool is_idle() const;
  /// in_progress while one is under way or waits; after that the first error, whose words are then
  /// those of last_error().
  Result state() const;
  /// Waits until none is under way or waits.
  void await() const;
  /// Those that have not begun are not begun.
  void drop();
  /// The same, waits, and forgets an error.
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
