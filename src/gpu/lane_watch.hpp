// How the streams of a communicator are, asked by a thread of its own: while a thread of the
// program waits for room in a stream's queue, NVIDIA's driver answers nobody about that stream.
// There is room when the stream goes on, so who lets it go on must not wait for such an answer.
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
  /// `lanes` outlive it.
  LaneWatch(std::shared_ptr<const Device> device, const Lanes& lanes);
  ~LaneWatch();
  LaneWatch(const LaneWatch&) = delete;
  LaneWatch& operator=(const LaneWatch&) = delete;

  /// As last answered, and asks anew. Neither waits. Errors: what a stream has failed with.
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
  Result<void> found_;  ///< once `failed_`, for good
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace penstock::gpu
