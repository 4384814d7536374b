// Two processes that measure together, pinned to two cores, under a supervisor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "bench/shared_state.hpp"

namespace penstock::bench {

struct PairOptions {
  bool fifo = false;  ///< measured bursts run as SCHED_FIFO, each followed by an equally long sleep
  std::uint64_t timeout_ns = 300'000'000'000;
};

/// One of the two processes. Its waits have no deadline; the supervisor enforces one.
class Side {
 public:
  Side(unsigned index, SharedState& shared, bool fifo)
      : index_(index), shared_(shared), fifo_(fifo) {}

  unsigned index() const { return index_; }
  /// Waits for the other side; its earlier writes to ordinary shared memory are then visible.
  void meet();
  /// Exchanges numbers with the other side.
  std::uint64_t exchange(std::uint64_t mine);
  /// The same for text or bytes, at most letter_bytes.
  std::string exchange(const std::string& mine);
  /// Sets a word that the other side can read at any time; it only grows.
  void signal(std::uint64_t value) {
    shared_.signal[index_].value.store(value, std::memory_order_release);
  }
  std::uint64_t signalled() const {
    return shared_.signal[1 - index_].value.load(std::memory_order_acquire);
  }
  void await_signal(std::uint64_t value) const;
  /// Ping-pong over plain cached lines, one way: shows the present distance of the two cores.
  double plain_handover_ns();
  /// Both sides call it and run `work` together. Returns its ns on this side.
  template <class Work>
  double burst(Work&& work) {
    raise_priority();
    meet();
    const std::uint64_t start = base::now_ns();
    work();
    const std::uint64_t end = base::now_ns();
    restore_priority(end - start);
    return static_cast<double>(end - start);
  }

 private:
  void raise_priority() const;
  void restore_priority(std::uint64_t burst_ns) const;
  unsigned index_;
  SharedState& shared_;
  bool fifo_;
  std::uint64_t rounds_ = 0, balls_ = 0;
};

/// Runs `body` in both processes. Errors: fewer than two CPUs, those of a body, a side that died,
/// deadline, interruption.
Result<void> run_pair(const PairOptions& options, const std::function<Result<void>(Side&)>& body);

}  // namespace penstock::bench
