#include "base/end_beside.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
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
  if (running().process == getpid())
    (void)await_ends(longest);  // a forked child has no such thread
}

void count(int change) {
  Running& all = running();
  const std::lock_guard<std::mutex> guard(all.mutex);
  all.count += change;
  all.changed.notify_all();
}

}  // namespace

void end_beside(const char* name, std::function<void()> end) {
  static const int registered = std::atexit(await_running);
  (void)registered;
  count(1);
  const auto run = [end = std::move(end)] {
    end();
    count(-1);
  };
  try {
    start_service_thread(name, run).detach();
  } catch (const std::system_error&) {
    run();  // no thread can be started
  }
}

bool await_ends(std::chrono::nanoseconds patience) {
  Running& all = running();
  std::unique_lock<std::mutex> lock(all.mutex);
  return all.changed.wait_for(lock, patience, [&] { return all.count == 0; });
}

}  // namespace penstock::base
