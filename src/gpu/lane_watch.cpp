#include "gpu/lane_watch.hpp"

#include <chrono>

#include "base/service_thread.hpp"

namespace penstock::gpu {

LaneWatch::LaneWatch(std::shared_ptr<const Device> device, const Lanes& lanes)
    : device_(std::move(device)),
      lanes_(lanes),
      thread_(base::start_service_thread(
          "penstock-lanes", [this] { run(); }, device_->numa_node())) {}

LaneWatch::~LaneWatch() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LaneWatch::run() {
  constexpr std::chrono::milliseconds between{20};
  const Device::Scope scope(*device_);
  const BesideCaptures beside(device_->driver());
  std::unique_lock<std::mutex> lock(mutex_);
  while (!failed_) {
    changed_.wait(lock, [this] { return ends_ || asked_; });
    if (ends_) return;
    lock.unlock();
    auto found = look();
    lock.lock();
    if (!found) {
      found_ = std::move(found);
      failed_ = true;
    }
    changed_.wait_for(lock, between, [this] { return ends_; });
    asked_ = false;
  }
}

/// A thread that enqueues learns of a failure by itself.
Result<void> LaneWatch::look() {
  const auto hold = lanes_.try_hold();
  idle_ = hold && lanes_.are_idle();
  return hold ? lanes_.check() : Result<void>();
}

void LaneWatch::ask() {
  if (asked_.exchange(true)) return;
  const std::lock_guard<std::mutex> guard(mutex_);
  changed_.notify_all();
}

Result<void> LaneWatch::check() {
  if (failed_) return found_;
  ask();
  return {};
}

bool LaneWatch::are_idle() {
  ask();
  return idle_;
}

}  // namespace penstock::gpu
