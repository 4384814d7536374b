#include "sim/process/thread_cores.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace penstock::sim {

namespace {

constexpr auto flush_period = std::chrono::milliseconds(4);

/// Guards the lists of cores. Never destroyed: threads may end after static objects are destroyed.
std::mutex& registry() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

/// Makes sure that a forked child finds the lists whole.
void watch_forks() {
  static const int watched = pthread_atfork([] { registry().lock(); }, [] { registry().unlock(); },
                                            [] { registry().unlock(); });
  (void)watched;
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

/// A thread's cores, one for each attachment that it has used.
class CoresOfThread {
 public:
  struct Entry {
    std::uint64_t attachment;
    base::Origin origin;
    ThreadCore* core;
    std::weak_ptr<ThreadCores> owner;
  };

  ~CoresOfThread() {
    for (const Entry& entry : entries_) {
      const auto owner = entry.owner.lock();
      if (owner != nullptr && entry.origin.here()) owner->retire(entry.core);
    }
  }

  ThreadCore* find(std::uint64_t attachment) {
    for (const Entry& entry : entries_) {
      if (entry.attachment == attachment && entry.origin.here()) return entry.core;
    }
    return nullptr;
  }

  void add(Entry entry) {
    std::erase_if(entries_, [](const Entry& old) { return old.owner.expired(); });
    entries_.push_back(std::move(entry));
  }

 private:
  std::vector<Entry> entries_;
};

namespace {

/// Without destructors: exit handlers run after the main thread's own objects are destroyed. Cores
/// that they add stay.
thread_local CoresOfThread* cores_of_thread = nullptr;
thread_local bool thread_ended = false;

struct EndOfThread {
  void watch() {}
  ~EndOfThread() {
    delete cores_of_thread;
    cores_of_thread = nullptr;
    thread_ended = true;
  }
};
thread_local EndOfThread end_of_thread;

CoresOfThread& own_cores() {
  if (cores_of_thread == nullptr) {
    cores_of_thread = new CoresOfThread;
    if (!thread_ended) end_of_thread.watch();
  }
  return *cores_of_thread;
}

}  // namespace

void ThreadCore::drain() {
  const std::lock_guard lock(mutex_);
  core_.drain();
}

ThreadCores::ThreadCores(std::unique_ptr<NodeCache> cache, const Settings& settings,
                         std::uint64_t seed)
    : cache_(std::move(cache)), settings_(settings), seed_(seed), id_(next_id()) {
  watch_forks();
}

ThreadCore& ThreadCores::mine() {
  ThreadCore* core = own_cores().find(id_);
  return core != nullptr ? *core : add_mine();
}

ThreadCore& ThreadCores::add_mine() {
  const std::lock_guard lock(registry());
  RandomChoices seeds(seed_ ^ static_cast<std::uint64_t>(::getpid()) << 32 ^ ++threads_);
  cores_.push_back(std::make_unique<ThreadCore>(cache_->view(), settings_, seeds.next()));
  ThreadCore& added = *cores_.back();
  own_cores().add({id_, {}, &added, weak_from_this()});
  return added;
}

void ThreadCores::retire(ThreadCore* core) {
  const std::lock_guard lock(registry());
  if (closed_) return;
  core->drain();
  std::erase_if(cores_, [core](const auto& owned) { return owned.get() == core; });
}

void ThreadCores::start_flusher() {
  // The thread inherits the mask: the application's signals are for the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  flusher_ = std::thread([this] { flush_until_stopped(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ThreadCores::flush_until_stopped() {
  pthread_setname_np(pthread_self(), "penstock-flush");
  std::unique_lock stopping(flusher_mutex_);
  while (!flusher_wakes_.wait_for(stopping, flush_period, [this] { return flusher_stops_; })) {
    const std::lock_guard lock(registry());
    for (const auto& core : cores_) core->drain();
  }
}

void ThreadCores::close() {
  if (!origin_.here()) {
    // In a forked child threads and buffers belong to the parent.
    if (flusher_.joinable()) new std::thread(std::move(flusher_));
    return;
  }
  if (flusher_.joinable()) {
    {
      const std::lock_guard stopping(flusher_mutex_);
      flusher_stops_ = true;
    }
    flusher_wakes_.notify_one();
    flusher_.join();
  }
  const std::lock_guard lock(registry());
  for (const auto& core : cores_) core->drain();
  closed_ = true;
}

}  // namespace penstock::sim
