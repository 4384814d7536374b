// Lets the MPI go on while a rank waits in the pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "pmpi.hpp"
#include "pool/pool.hpp"

namespace penstock::mpi {

/// Peers may need the MPI's messages to come to the call that this rank waits in. So the MPI is
/// probed now and then: on a communicator with others, as MPICH moves nothing at a probe of
/// MPI_COMM_SELF. Not while one of the waiter's peers is dead: the MPI may end the job when its
/// provider tells of that, before the wait has returned an error that the program wants.
class MpiProgress {
 public:
  /// `comm` may change: to one that lives longer.
  MpiProgress(const std::atomic<Handle>& comm, pool::Pool& pool, std::vector<std::uint64_t> peers)
      : comm_(&comm), pool_(&pool), peers_(std::move(peers)) {}

  void look() {
    constexpr unsigned calls_between = 128;
    constexpr std::uint64_t at_the_latest_ns =
        50'000;  // looks are seldom when the wait sleeps between
    const std::uint64_t now = base::now_ns();
    if (++calls_ % calls_between != 0 && now - last_ns_ < at_the_latest_ns) return;
    last_ns_ = now;
    if (now >= next_look_at_peers_ns_) {
      next_look_at_peers_ns_ = now + between_looks_at_peers_ns;
      somebody_died_ = somebody_died_ || !nobody_died();
    }
    if (somebody_died_) return;
    int flag = 0;
    pmpi().Iprobe(constants().any_source, constants().any_tag, comm_->load(), &flag,
                  constants().status_ignore);
  }

 private:
  /// Each peer comes in turn more often than at a provider's slow checks (16 each 20 ms), which
  /// tell of a death when they find it the second time.
  static constexpr std::size_t at_once = 8;
  static constexpr std::uint64_t between_looks_at_peers_ns = 8'000'000;

  /// Looks at some of many peers. Who has left is of no concern.
  bool nobody_died() {
    for (std::size_t i = 0; i < std::min(at_once, peers_.size()); ++i) {
      next_ = (next_ + 1) % peers_.size();
      if (pool_->alive(peers_[next_])) continue;
      if (has_died(peers_[next_])) return false;
      peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(next_));
    }
    return true;
  }
  bool has_died(std::uint64_t token) const {
    const auto records = pool_->processes();
    return std::any_of(records.begin(), records.end(), [token](const pool::ProcessRecord& record) {
      return record.token() == token && record.attached && !record.alive;
    });
  }

  const std::atomic<Handle>* comm_;
  pool::Pool* pool_;
  std::vector<std::uint64_t> peers_;
  std::size_t next_ = 0;
  bool somebody_died_ = false;
  unsigned calls_ = 0;
  std::uint64_t last_ns_ = 0;
  std::uint64_t next_look_at_peers_ns_ = 0;
};

}  // namespace penstock::mpi
