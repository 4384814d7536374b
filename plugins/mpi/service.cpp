#include "service.hpp"

#include <csignal>
#include <ctime>

#include <algorithm>
#include <thread>

namespace penstock::mpi {

namespace {

/// A peer waits so long at most, once for each range of a window that it comes to.
constexpr long pause_ns = 1'000'000;

class Service {
 public:
  void add(PoolWindow& window) {
    const std::lock_guard<std::mutex> guard(mutex_);
    windows_.push_back(&window);
    if (running_) return;
    if (thread_.joinable()) thread_.join();  // it has seen that there was nothing left to do
    running_ = true;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);  // signals are for the program's threads
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  void remove(PoolWindow& window) {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::erase(windows_, &window);
  }
  void remove_all() {
    const std::lock_guard<std::mutex> guard(mutex_);
    windows_.clear();
  }

 private:
  void run() {
    while (look()) {
      const timespec pause{0, pause_ns};
      nanosleep(&pause, nullptr);
    }
  }
  /// False when there are no windows any more. A window that is in use is served by its user.
  bool look() {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (PoolWindow* window : windows_) {
      if (!window->mutex.try_lock()) continue;
      window->core->serve();
      window->mutex.unlock();
    }
    running_ = !windows_.empty();
    return running_;
  }

  std::mutex mutex_;
  std::vector<PoolWindow*> windows_;
  bool running_ = false;
  std::thread thread_;
};

Service& service() {
  static auto* one = new Service;  // never destroyed: its thread may outlive exit handlers
  return *one;
}

}  // namespace

void serve(PoolWindow& window) {
  service().add(window);
}

void end_service(PoolWindow& window) {
  service().remove(window);
}

void end_all_service() {
  service().remove_all();
}

}  // namespace penstock::mpi
