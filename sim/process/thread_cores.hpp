// The threads of this process and their access to one node's cache: each has a Core, with its own
// store buffers, and draws its own chances.
//
// Stores leave a buffer at `store_fence`, by chance while the thread runs, and after a few
// milliseconds in any case: a processor's buffer is also emptied at interrupts, and a thread that
// waits outside Penstock must not hold back for ever what others wait for. A thread that ends, and
// detaching, send the rest. SIGKILL loses it: as if the process had died a little earlier.
//
// A forked child has none of its parent's buffers: those stores belong to the parent.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fork.hpp"
#include "sim/memory/core.hpp"
#include "sim/process/node_cache.hpp"
#include "sim/process/settings.hpp"

namespace penstock::sim {

/// The core of one thread. Only that thread operates on it; meanwhile the flusher empties it.
class ThreadCore : public Machine {
 public:
  ThreadCore(NodeView& view, const Settings& settings, std::uint64_t seed)
      : choices_(seed), faults_(settings.faults_of(seed)), core_(view, choices_, faults_, *this) {}

  void step(Core& core) override {
    core.background_event();
    core.pass_time(++operations_);
  }
  void happened(Core&, Event, std::uint64_t, std::uint64_t) override {}

  std::mutex& mutex() { return mutex_; }
  Core& core() { return core_; }
  /// Counts operations that PENSTOCK_SIM_BREAK names; returns true for every N-th.
  bool leave_out(const Break& left_out) { return ++breakable_ % left_out.every == 0; }
  void drain();

 private:
  std::mutex mutex_;
  RandomChoices choices_;
  const FaultModel faults_;
  Core core_;
  std::uint64_t operations_ = 0;
  std::uint64_t breakable_ = 0;
};

class ThreadCores : public std::enable_shared_from_this<ThreadCores> {
 public:
  ThreadCores(std::unique_ptr<NodeCache> cache, const Settings& settings, std::uint64_t seed);

  /// Returns the calling thread's core. Takes no lock after the thread's first call.
  ThreadCore& mine();
  std::byte* base() const { return cache_->view().base(); }
  const Break& left_out() const { return settings_.left_out; }
  /// Counts lines that threads of this process have invalidated.
  void count_reads(const void* at, std::size_t bytes) {
    if (bytes == 0) return;
    const auto first = reinterpret_cast<std::uintptr_t>(at) % coherence::line_bytes;
    reads_.fetch_add((first + bytes - 1) / coherence::line_bytes + 1, std::memory_order_relaxed);
  }
  std::uint64_t reads() const { return reads_.load(std::memory_order_relaxed); }

  /// Starts a thread that empties the buffers now and then, until close().
  void start_flusher();
  /// No operation may be under way or follow: the pool is about to be unmapped.
  void close();

 private:
  friend class CoresOfThread;
  ThreadCore& add_mine();
  void retire(ThreadCore* core);
  void flush_until_stopped();

  const std::unique_ptr<NodeCache> cache_;
  const Settings settings_;
  const std::uint64_t seed_;
  const std::uint64_t id_;  ///< never used again for another attachment
  const base::Origin origin_;
  std::atomic<std::uint64_t> reads_ = 0;
  std::uint64_t threads_ = 0;  ///< number of threads so far
  bool closed_ = false;
  std::vector<std::unique_ptr<ThreadCore>> cores_;

  std::thread flusher_;
  std::mutex flusher_mutex_;
  std::condition_variable flusher_wakes_;
  bool flusher_stops_ = false;
};

}  // namespace penstock::sim
