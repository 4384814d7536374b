// Asks for the state of a communicator's streams in a thread of its own: while a thread of the
// program waits for room in a stream's queue, NVIDIA's driver answers no question about that
// stream. Room comes when the stream advances, so a thread that lets it advance must not wait for
// such an answer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "gpu/lanes.hpp"

namespace penstock::gpu {

class LaneWatch {
 public:
  /// `lanes` must outlive it.
  LaneWatch(std::shared_ptr<const Device> device, const Lanes& lanes);
  ~LaneWatch();
  LaneWatch(const LaneWatch&) = delete;
  LaneWatch& operator=(const LaneWatch&) = delete;

  /// Returns the last answer, and asks again. Neither waits. Errors: the failure of a stream.
  Result<void> check();
  bool are_idle();

 private:
  void run();
  void ask();

  std::shared_ptr<const Device> device_;
  const Lanes& lanes_;
  std::atomic<bool> asked_{false}, idle_{false}, failed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  Result<void> found_;  ///< kept for good once `failed_`
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace penstock::gpu
