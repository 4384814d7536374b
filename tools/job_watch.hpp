// Watches the processes of one job through the pool's process table, without taking a slot.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "job_processes.hpp"
#include "penstock/pool.hpp"

namespace penstock::tools {

struct JobTotals {
  std::uint32_t ranks = 0, nodes = 0;  ///< that attached
  std::uint64_t messages = 0, bytes = 0;
};

class JobWatch {
 public:
  /// The first rank that died without detaching.
  struct Death {
    std::string who;  ///< "rank 2 (pid 1234, emulated node 1)"
    std::string how;  ///< "was killed by signal 9 (Killed)", "exited with status 1" or "ended"
  };

  /// `epoll` tells when a rank of this host ends; its data is the rank's pid.
  static Result<JobWatch> start(const std::string& pool, const std::string& job, int epoll);

  /// Reads the table anew. Cheap; a few times a second while the job runs.
  void sample();
  /// A rank's process has ended, as the epoll said. Told in the order of the deaths.
  void on_exit(pid_t pid);
  /// It has ended and that is no wonder: the job was interrupted.
  void forget(pid_t pid);
  /// After the job: who was never seen to end; what the MPI left in /dev/shm is removed.
  void finish();

  /// Ranks that have been seen on the pool.
  std::size_t seen() const { return ranks_.size(); }
  const std::optional<Death>& first_death() const { return first_death_; }
  JobTotals totals() const;

 private:
  using Key = std::pair<std::uint32_t, std::uint64_t>;  ///< slot, generation
  struct Rank {
    pool::ProcessRecord record;
    Descriptor process;
    std::uint64_t seen_ns = 0;
  };
  JobWatch(std::unique_ptr<pool::Pool> pool, std::string job, int epoll)
      : pool_(std::move(pool)), job_(std::move(job)), epoll_(epoll) {}
  void watch_process(Rank& rank) const;
  void note_segments(const Rank& rank);
  void note_death(const pool::ProcessRecord& record, std::optional<std::string> verdict);

  std::unique_ptr<pool::Pool> pool_;
  std::string job_;
  int epoll_;
  std::map<Key, Rank> ranks_;
  std::set<std::string> segments_;
  std::optional<Death> first_death_;
};

}  // namespace penstock::tools
