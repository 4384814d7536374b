#include "base/end_beside.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/service_thread.hpp"

namespace penstock::base {

namespace {

/// The ends that run. Kept for ever, since they may outlive static objects.
struct Running {
  std::mutex mutex;
  std::condition_variable changed;
  int count = 0;
  const int process = getpid();
};

Running& running() {
  static Running& all = *new Running;
  return all;
}

/// When the process ends, what they use is destroyed behind this.
void await_running() {
  constexpr std::chrono::seconds longest{2};
  Running& all = running();
  if (all.process != getpid()) return;  // a forked child has none of the threads
  std::unique_lock<std::mutex> lock(all.mutex);
  (void)all.changed.wait_for(lock, longest, [&] { return all.count == 0; });
}

void count(int change) {
  Running& all = running();
  const std::lock_guard<std::mutex> guard(all.mutex);
  all.count += change;
  all.changed.notify_all();
}

}  // namespace

void end_beside(const char* name, std::function<void()> end, std::chrono::nanoseconds patience) {
  static const int registered = std::atexit(await_running);
  (void)registered;
  const auto task = std::make_shared<std::packaged_task<void()>>(std::move(end));
  const auto ended = task->get_future();
  count(1);
  const auto run = [task] {
    (*task)();
    count(-1);
  };
  try {
    start_service_thread(name, run).detach();
  } catch (const std::system_error&) {
    run();  // no thread can be started
  }
  (void)ended.wait_for(patience);
}

}  // namespace penstock::base
