// Lets the MPI make progress while a rank waits in the pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "pmpi.hpp"
#include "pool/members.hpp"
#include "pool/pool.hpp"

namespace penstock::mpi {

/// Probes the MPI periodically during a wait in the pool: peers may need MPI messages to make
/// progress before they reach the call that this rank waits in. It probes a communicator with
/// peers, since MPICH makes no progress in a probe of MPI_COMM_SELF, and another tag each time,
/// since MPICH makes no progress elsewhere in a probe that finds a message from the rank's own node
/// (`Collectives.test_message_that_waits_stops_no_progress`). It stops once a peer has died: the
/// MPI might end the job when its provider reports the death, before the wait has returned its
/// error to the program.
class MpiProgress {
 public:
  /// `comm` may change during the wait, to a communicator that lives longer.
  MpiProgress(const std::atomic<Handle>& comm, pool::Pool& pool, std::vector<std::uint64_t> peers)
      : comm_(&comm), pool_(&pool), peers_(std::move(peers)) {}

  void look() {
    constexpr unsigned calls_between = 128;
    constexpr std::uint64_t at_the_latest_ns =
        50'000;  // polls are rare when the wait sleeps between them
    const std::uint64_t now = base::now_ns();
    if (++calls_ % calls_between != 0 && now - last_ns_ < at_the_latest_ns) return;
    last_ns_ = now;
    if (now >= next_look_at_peers_ns_) {
      next_look_at_peers_ns_ = now + between_looks_at_peers_ns;
      peer_died_ = peer_died_ || !check_peers();
    }
    if (peer_died_) return;
    int flag = 0;
    tag_ = (tag_ + 9'973) % tags;
    pmpi().Iprobe(constants().any_source, tag_, comm_->load(), &flag, constants().status_ignore);
  }

 private:
  /// Peers checked in one round. Each peer is checked more often than by the provider, which checks
  /// 16 every 20 ms and reports a death when it sees it the second time.
  static constexpr std::size_t at_once = 8;
  static constexpr std::uint64_t between_looks_at_peers_ns = 8'000'000;
  static constexpr int tags = 32'768;  ///< every MPI has tags up to 32,767

  /// Checks the next few peers. Forgets peers that have left; returns false if one has died.
  bool check_peers() {
    for (std::size_t i = 0; i < std::min(at_once, peers_.size()); ++i) {
      next_ = (next_ + 1) % peers_.size();
      if (pool_->alive(peers_[next_])) continue;
      if (has_died(peers_[next_])) return false;
      peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(next_));
    }
    return true;
  }
  bool has_died(std::uint64_t token) const {
    const auto records = pool_->members().processes();
    return std::any_of(records.begin(), records.end(), [token](const pool::ProcessRecord& record) {
      return record.token() == token && record.attached && !record.alive;
    });
  }

  const std::atomic<Handle>* comm_;
  pool::Pool* pool_;
  std::vector<std::uint64_t> peers_;
  std::size_t next_ = 0;
  bool peer_died_ = false;
  int tag_ = 0;
  unsigned calls_ = 0;
  std::uint64_t last_ns_ = 0;
  std::uint64_t next_look_at_peers_ns_ = 0;
};

}  // namespace penstock::mpi
