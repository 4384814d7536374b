#include "worker.hpp"

#include <pthread.h>

#include <utility>

namespace penstock::torch {

/// Starts the thread that takes the tasks from now on. Call it with the lock held.
void Worker::start() {
  threads_.emplace_back([state = state_] { run(state); });
  state_->runs = threads_.back().get_id();
}

void Worker::later(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> guard(state_->mutex);
    if (!state_->stopped) {
      state_->tasks.push_back(std::move(task));
      task = nullptr;
      const bool in_a_task = state_->busy && state_->by == std::this_thread::get_id() &&
                             state_->runs == std::this_thread::get_id();
      if (in_a_task) state_->busy = false;  // the task only waits from here on
      if (in_a_task || threads_.empty()) start();
    }
  }
  if (task != nullptr) return task();  // stopped: the task finds that out
  state_->changed.notify_all();
}

void Worker::run(const std::shared_ptr<State>& state) {
  pthread_setname_np(pthread_self(), "penstock-torch");
  std::unique_lock<std::mutex> lock(state->mutex);
  for (;;) {
    state->changed.wait(lock,
                        [&] { return !state->busy && (!state->tasks.empty() || state->stopped); });
    if (state->tasks.empty()) return;
    auto task = std::move(state->tasks.front());
    state->tasks.pop_front();
    state->begin();
    lock.unlock();
    task();
    task = nullptr;  // release its tensors before others learn that it is done
    lock.lock();
    if (state->runs != std::this_thread::get_id()) return;  // another thread continues
    state->busy = false;
    state->changed.notify_all();
  }
}

void Worker::done() {
  {
    const std::lock_guard<std::mutex> guard(state_->mutex);
    state_->busy = false;
    // Wake the thread only if it has work, because a wake-up takes longer than many calls.
    if (state_->tasks.empty() && state_->draining == 0 && !state_->stopped) return;
  }
  state_->changed.notify_all();
}

bool Worker::drain(std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  ++state_->draining;
  const bool drained = state_->changed.wait_for(
      lock, limit, [this] { return !state_->busy && state_->tasks.empty(); });
  --state_->draining;
  return drained;
}

bool Worker::is_in_task() const {
  const std::lock_guard<std::mutex> guard(state_->mutex);
  return state_->busy && state_->by == std::this_thread::get_id();
}

void Worker::stop() {
  std::vector<std::thread> ended;
  {
    const std::lock_guard<std::mutex> guard(state_->mutex);
    state_->stopped = true;
    ended = std::move(threads_);
    threads_.clear();
  }
  state_->changed.notify_all();
  for (std::thread& thread : ended) {
    if (thread.get_id() == std::this_thread::get_id())
      thread.detach();  // it ends by itself: it shares ownership of the state
    else
      thread.join();
  }
  std::unique_lock<std::mutex> lock(state_->mutex);
  ++state_->draining;
  state_->changed.wait(
      lock, [this] { return !state_->busy || state_->by == std::this_thread::get_id(); });
  --state_->draining;
}

bool Worker::stopped() const {
  const std::lock_guard<std::mutex> guard(state_->mutex);
  return state_->stopped;
}

}  // namespace penstock::torch
