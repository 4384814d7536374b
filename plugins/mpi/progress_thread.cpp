#include "progress_thread.hpp"

#include <ctime>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "base/service_thread.hpp"
#include "window/process_bell.hpp"

namespace penstock::mpi {

namespace {

/// The pause between two polls. A peer waits at most this long, once for each range of a window
/// that it accesses. The longer pause applies after many polls without a request.
constexpr long progress_pause_ns = 1'000'000, long_progress_pause_ns = 8'000'000;
constexpr std::uint32_t many_quiet_looks = 250;
/// Windows polled in each round even if the bell has not rung. With the bell, that is 5,000 lines a
/// second during the first quarter of a second, then 625, however many windows there are.
constexpr std::size_t in_turn = 4;

class ProgressThread {
 public:
  void add(PoolWindow& window) {
    const std::lock_guard<std::mutex> guard(mutex_);
    windows_.push_back(&window);
    new_.push_back(&window);
    quiet_looks_ = 0;
    if (running_) return;
    if (thread_.joinable()) thread_.join();  // it ended when no window was left
    running_ = true;
    thread_ = base::start_service_thread("penstock-serve", [this] { run(); });
  }
  void remove(PoolWindow& window) {
    const std::lock_guard<std::mutex> guard(mutex_);
    std::erase(windows_, &window);
    std::erase(new_, &window);
    window.look_due.store(false, std::memory_order_relaxed);  // its words may get a new owner
  }
  void remove_all() {
    const std::lock_guard<std::mutex> guard(mutex_);
    windows_.clear();
    new_.clear();
    bell_.reset();
  }

 private:
  void run() {
    for (timespec pause{}; look(pause.tv_nsec);) nanosleep(&pause, nullptr);
  }
  /// One round of polling; false if no window is left. Polls all windows if the process's bell has
  /// rung. Otherwise polls only a few in turn, in case a ring was overwritten or a rank is leaving.
  bool look(long& pause) {
    const std::lock_guard<std::mutex> guard(mutex_);
    running_ = !windows_.empty();
    if (!running_) return false;  // the pool may be detached
    ++quiet_looks_;
    if (is_rung()) {
      for (PoolWindow* window : windows_) look_at(*window);
    } else {
      for (PoolWindow* window : new_) look_at(*window);  // it may have rung before they were added
      for (std::size_t i = 0; i < std::min(windows_.size(), in_turn); ++i)
        look_at(*windows_[turn_++ % windows_.size()]);
    }
    new_.clear();
    pause = quiet_looks_ < many_quiet_looks ? progress_pause_ns : long_progress_pause_ns;
    return true;
  }
  /// True if the bell has rung. Always true if the pool had no room for a bell.
  bool is_rung() {
    if (!bell_) {
      const std::uint64_t offset = attachment()->memory.bell();
      if (offset == 0) return true;
      bell_.emplace(attachment()->pool(), offset);
    }
    return bell_->rung();
  }
  /// Serves the window's requests. If the window is in use, leaves that to its user: a waiting call
  /// polls for requests, and any other call serves them at its end because of look_due.
  void look_at(PoolWindow& window) {
    if (!window.mutex.try_lock()) {
      window.look_due.store(true, std::memory_order_relaxed);
      return;
    }
    window.look_due.store(false, std::memory_order_relaxed);
    if (window.core->serve()) quiet_looks_ = 0;
    window.mutex.unlock();
  }

  std::mutex mutex_;
  std::vector<PoolWindow*> windows_;
  std::vector<PoolWindow*> new_;  ///< added since the last round
  std::size_t turn_ = 0;
  std::optional<window::ProcessBell> bell_;  ///< opened at the first round
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
