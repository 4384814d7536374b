// Asks for the state of a communicator's streams in a thread of its own, and only while nobody
// gives them operations. NVIDIA's driver may answer late, for it also waits for other threads of
// the program; a thread that lets the streams advance must not wait for such an answer.
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
  Result<void> look();
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
