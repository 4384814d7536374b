#include "pool/heartbeat.hpp"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/service_thread.hpp"
#include "pool/lease.hpp"

namespace penstock::pool {

Heartbeat::Heartbeat(std::uint64_t lease_ns, Beat beat)
    : period_ns_(beat_period_ns(lease_ns)),
      certain_ns_(certain_ns(lease_ns)),
      certain_until_ns_(0),
      owner_(::getpid()),
      beat_(std::move(beat)) {
  thread_ = base::start_service_thread("penstock-lease", [this] { run(); });
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Heartbeat::replace(Beat beat, std::function<void()> chores) {
  const std::lock_guard lock(mutex_);
  beat_ = std::move(beat);
  chores_ = std::move(chores);
  beat_locked();
}

bool Heartbeat::beat_now() {
  if (owner_ != ::getpid()) return false;
  const std::lock_guard lock(mutex_);
  beat_locked();
  return true;
}

/// Others count from the time they see the beat, which is later than `before`.
void Heartbeat::beat_locked() {
  const std::uint64_t before = base::coarse_ns();
  beat_();
  certain_until_ns_.store(before + certain_ns_, std::memory_order_release);
}

void Heartbeat::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, std::chrono::nanoseconds(period_ns_), [this] { return stop_; });
    if (stop_) return;
    beat_locked();
    const auto chores = chores_;
    if (!chores) continue;
    lock.unlock();
    chores();
    lock.lock();
  }
}

}  // namespace penstock::pool
