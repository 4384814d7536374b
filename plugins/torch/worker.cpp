#include "worker.hpp"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace penstock::torch {

void Worker::later(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!stopped_) {
      tasks_.push_back(std::move(task));
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      task = nullptr;
    }
  }
  if (task != nullptr) return task();  // after the end: it finds that out
  changed_.notify_all();
}

void Worker::run() {
  pthread_setname_np(pthread_self(), "penstock-torch");
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !busy_ && (!tasks_.empty() || stopped_); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    begin();
    lock.unlock();
    task();
    task = nullptr;  // its tensors go before others learn that it is done
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void Worker::done() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    busy_ = false;
    // The thread is woken where it has something to do only: that takes longer than many a call.
    if (tasks_.empty() && draining_ == 0 && !stopped_) return;
  }
  changed_.notify_all();
}

bool Worker::drain(int milliseconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  ++draining_;
  const bool drained = changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                                         [this] { return !busy_ && tasks_.empty(); });
  --draining_;
  return drained;
}

void Worker::stop() {
  std::thread ended;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    stopped_ = true;
    if (thread_.get_id() != std::this_thread::get_id()) ended = std::move(thread_);
  }
  changed_.notify_all();
  if (ended.joinable()) ended.join();
  std::unique_lock<std::mutex> lock(mutex_);
  ++draining_;
  changed_.wait(lock, [this] { return !busy_ || by_ == std::this_thread::get_id(); });
  --draining_;
}

bool Worker::stopped() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return stopped_;
}

}  // namespace penstock::torch
