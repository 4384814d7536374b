// The background thread that shows that this attachment lives.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock::pool {

class Heartbeat {
 public:
  /// One beat. False: there is nothing to keep alive any more.
  using Beat = std::function<bool()>;

  /// `lease_ns`: a beat every eighth of it, at least every second.
  Heartbeat(std::uint64_t lease_ns, Beat beat);
  /// Waits for a beat in progress, not for the next one. After fork() the child has no such thread:
  /// there the object must be leaked, not destroyed.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// From now on `beat` is called instead; a beat in progress has ended on return.
  void replace(Beat beat);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::uint64_t period_ns_;
  Beat beat_;
  std::thread thread_;
};

}  // namespace penstock::pool
