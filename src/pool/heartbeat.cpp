#include "pool/heartbeat.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace penstock::pool {

namespace {

constexpr std::uint64_t shortest_ns = 50'000'000;
constexpr std::uint64_t longest_ns = 1'000'000'000;

}  // namespace

Heartbeat::Heartbeat(std::uint64_t lease_ns, Beat beat)
    : period_ns_(std::clamp(lease_ns / 8, shortest_ns, longest_ns)), beat_(std::move(beat)) {
  // The thread inherits the mask: the application's signals are for the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Heartbeat::replace(Beat beat) {
  const std::lock_guard lock(mutex_);
  beat_ = std::move(beat);
}

void Heartbeat::run() {
  pthread_setname_np(pthread_self(), "penstock-lease");
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, std::chrono::nanoseconds(period_ns_), [this] { return stop_; });
    if (stop_ || !beat_) continue;
    if (!beat_()) beat_ = nullptr;
  }
}

}  // namespace penstock::pool
