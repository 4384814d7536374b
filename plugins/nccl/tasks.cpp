#include "nccl/tasks.hpp"

#include <utility>

#include "base/service_thread.hpp"
#include "nccl/context_of.hpp"
#include "nccl/export.hpp"

namespace penstock::nccl {

Tasks::~Tasks() {
  drop();
  await();
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Tasks::post(std::function<Result()> task) {
  const ContextOf context;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (failure_ != success) return;
    if (!thread_.joinable())  // if it cannot be started, no task waits for it
      thread_ = base::start_service_thread("penstock-nccl", [this] { run(); });
    waiting_.emplace_back([context, body = std::move(task)] {
      const ContextOf::Scope scope(context);
      return body();
    });
  }
  changed_.notify_all();
}

bool Tasks::is_idle() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return !busy_ && waiting_.empty();
}

Result Tasks::state() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (busy_ || !waiting_.empty()) return in_progress;
  return failure_ == success ? success : failed(failure_, words_);
}

void Tasks::await() const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !busy_ && waiting_.empty(); });
}

void Tasks::drop() {
  // Destroyed after the lock is released: a task may hold the last reference to an object.
  std::deque<std::function<Result()>> dropped;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    dropped.swap(waiting_);
  }
  changed_.notify_all();
}

void Tasks::start_anew() {
  drop();
  await();
  const std::lock_guard<std::mutex> guard(mutex_);
  failure_ = success;
}

void Tasks::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    auto task = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    const Result done = guarded("a call that does not block", task);
    const std::string words = done == success ? "" : last_error();
    task = nullptr;
    lock.lock();
    busy_ = false;
    if (done != success) {
      failure_ = done;
      words_ = words;
      waiting_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace penstock::nccl
