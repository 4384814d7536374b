#include "queue_thread.hpp"

#include <ctime>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/service_thread.hpp"

namespace penstock::mpi {

namespace {

/// The pause between two polls: the short one while calls advance, the long one after many idle
/// polls or while a thread of the program polls.
constexpr long pause_ns = 50'000, long_pause_ns = 1'000'000;
constexpr std::uint32_t many_looks = 200;

class QueueThread {
 public:
  void add(const std::shared_ptr<PoolComm>& comm) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (ended_) return;
    if (std::find(busy_.begin(), busy_.end(), comm) == busy_.end()) busy_.push_back(comm);
    number_.store(busy_.size(), std::memory_order_release);
    quiet_looks_.store(0, std::memory_order_relaxed);
    if (!running_) begin();
    wake_.notify_one();
  }
  /// Advances all queues. True if something moved.
  bool advance_all() {
    if (number_.load(std::memory_order_acquire) == 0) return false;
    std::vector<std::shared_ptr<PoolComm>> comms;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      comms = busy_;
    }
    bool moved = false;
    for (const auto& comm : comms) moved = comm->queue->advance() || moved;
    remove_idle();
    return moved;
  }
  void end() {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      ended_ = true;
      busy_.clear();
      number_.store(0);
    }
    const std::lock_guard<std::mutex> looking(looking_);
  }

  std::atomic<std::uint32_t> driving{0};  ///< threads of the program that poll

 private:
  void begin() {
    running_ = true;
    base::start_service_thread("penstock-queue", [this] { run(); }).detach();
  }
  [[noreturn]] void run() {
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [this] { return !busy_.empty(); });
      }
      timespec pause{0, look()};
      nanosleep(&pause, nullptr);
    }
  }
  long look() {
    const std::lock_guard<std::mutex> guard(looking_);
    if (driving.load(std::memory_order_relaxed) != 0) return long_pause_ns;
    const std::uint32_t quiet =
        advance_all() ? 0 : quiet_looks_.load(std::memory_order_relaxed) + 1;
    quiet_looks_.store(quiet, std::memory_order_relaxed);
    return quiet < many_looks ? pause_ns : long_pause_ns;
  }
  void remove_idle() {
    bool ended = false;
    std::atomic_thread_fence(std::memory_order_seq_cst);  // see retire() in pool_comms.cpp
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      std::erase_if(busy_, [&ended](const std::shared_ptr<PoolComm>& comm) {
        const bool idle = comm->queue->outstanding() == 0;
        ended = ended || (idle && comm->ended.load());
        return idle;
      });
      number_.store(busy_.size(), std::memory_order_release);
    }
    if (ended) leave_ended_comms();
  }

  std::mutex mutex_, looking_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<PoolComm>> busy_;
  std::atomic<std::size_t> number_{0};
  std::atomic<std::uint32_t> quiet_looks_{0};
  bool running_ = false, ended_ = false;
};

QueueThread& queue_thread() {
  static auto* one = new QueueThread;  // never destroyed: its thread may outlive exit handlers
  return *one;
}

}  // namespace

void drive(const std::shared_ptr<PoolComm>& comm) {
  if (comm->queue->outstanding() != 0) queue_thread().add(comm);
}

void advance_queues() {
  queue_thread().advance_all();
}

void end_queue_thread() {
  queue_thread().end();
}

DrivingHere::DrivingHere() {
  queue_thread().driving.fetch_add(1, std::memory_order_relaxed);
}
DrivingHere::~DrivingHere() {
  queue_thread().driving.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace penstock::mpi
