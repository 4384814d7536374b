#include "progress_thread.hpp"

#include <csignal>
#include <ctime>

#include <algorithm>
#include <thread>

namespace penstock::mpi {

namespace {

/// The pause between two polls. A peer waits so long at most, once for each range of a window that
/// it reaches; the longer pause applies after many polls without a question.
constexpr long pause_ns = 1'000'000, long_pause_ns = 8'000'000;
constexpr std::uint32_t many_looks = 250;

class ProgressThread {
 public:
  void add(PoolWindow& window) {
    const std::lock_guard<std::mutex> guard(mutex_);
    windows_.push_back(&window);
    quiet_looks_ = 0;
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
    window.look_due.store(false, std::memory_order_relaxed);  // its words may get other owners
  }
  void remove_all() {
    const std::lock_guard<std::mutex> guard(mutex_);
    windows_.clear();
  }

 private:
  void run() {
    for (timespec pause{}; look(pause.tv_nsec);) nanosleep(&pause, nullptr);
  }
  /// False when there are no windows any more. A window that is in use is served by its user: a
  /// call that waits looks for requests, and any other as it ends, when it finds that a look is
  /// due.
  bool look(long& pause) {
    const std::lock_guard<std::mutex> guard(mutex_);
    ++quiet_looks_;
    for (PoolWindow* window : windows_) {
      if (!window->mutex.try_lock()) {
        window->look_due.store(true, std::memory_order_relaxed);
        continue;
      }
      window->look_due.store(false, std::memory_order_relaxed);
      if (window->core->serve()) quiet_looks_ = 0;
      window->mutex.unlock();
    }
    pause = quiet_looks_ < many_looks ? pause_ns : long_pause_ns;
    running_ = !windows_.empty();
    return running_;
  }

  std::mutex mutex_;
  std::vector<PoolWindow*> windows_;
  std::uint32_t quiet_looks_ = 0;
  bool running_ = false;
  std::thread thread_;
};

ProgressThread& progress_thread() {
  static auto* one = new ProgressThread;  // never destroyed: its thread may outlive exit handlers
  return *one;
}

}  // namespace

void serve(PoolWindow& window) {
  progress_thread().add(window);
}

void end_progress(PoolWindow& window) {
  progress_thread().remove(window);
}

void end_all_progress() {
  progress_thread().remove_all();
}

}  // namespace penstock::mpi
