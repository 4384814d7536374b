// Watches the processes of one job through the pool's process table, without taking a slot.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "job_processes.hpp"
#include "mpi_segments.hpp"
#include "pool/exit_log.hpp"
#include "pool/job_counts.hpp"
#include "pool/pool.hpp"
#include "processes.hpp"

namespace penstock::tools {

struct JobTotals {
  std::uint32_t ranks = 0, nodes = 0;  ///< that attached
  std::uint64_t messages = 0, bytes = 0;
  std::map<std::string, pool::JobCount> calls;  ///< of ranks that left the pool in order, by kind
};

class JobWatch {
 public:
  /// The first rank that called MPI_Abort, died, or ended with a status that is not 0.
  struct Death {
    std::string who;  ///< "rank 2 (pid 1234, emulated node 1)"
    /// "was killed by signal 9 (Killed)", "called MPI_Abort with code 7", "exited with status 1";
    /// with "without finalizing MPI" where it did not
    std::string how;
    bool was_killed = false;  ///< by SIGKILL or SIGTERM, as launchers end ranks that are left
  };

  /// `epoll` tells when a rank of this host ends; its data is the rank's pid. The ranks find
  /// `exit_log` in PENSTOCK_EXIT_LOG.
  static Result<JobWatch> start(const std::string& pool, const std::string& job,
                                const std::string& exit_log, int epoll);

  /// Reads the table anew.
  void sample();
  /// The same, unless it was read just before: the table of a large job takes milliseconds, and its
  /// ranks come one by one.
  void sample_when_due();
  /// A rank's process has ended, as the epoll said.
  void on_exit(pid_t pid);
  /// Called when the exit log's descriptor is readable: a process has attached or ended.
  void on_exit_log();
  int exit_log_descriptor() const { return exit_log_.descriptor(); }
  /// Called after the job: finds out which rank died first, and removes what the MPI left in
  /// /dev/shm. If the job `failed` or a rank died, this includes what ranks made that died too
  /// early to be examined.
  void finish(bool failed);

  /// Ranks are still expected on the pool, or what their MPI makes while it starts: whatever is not
  /// seen before they die stays unknown.
  bool starting(std::uint32_t ranks) const;
  /// A rank of this host died without detaching, and no rank that was seen here runs any more: the
  /// launcher has nothing left to wait for.
  bool lost_all() const;
  /// The number of ranks of this host that were seen.
  bool all_ended() const;
  /// True if a culprit is known: a rank that ended, and not by a signal by which launchers or their
  /// proxies end ranks.
  bool has_blame() {
    sample();
    on_exit_log();
    const auto first = find_first();
    return first && !first->was_killed;
  }
  const std::optional<Death>& first_death() const { return first_death_; }
  /// A rank that exited with status 0 without MPI_Finalize, if all ranks exited by themselves: then
  /// no rank was waiting for it, and it does not count as a death.
  const std::optional<std::string>& unfinalized() const { return unfinalized_; }
  JobTotals totals() const;

 private:
  using Key = std::pair<std::uint32_t, std::uint64_t>;  ///< slot, generation
  struct Rank {
    pool::ProcessRecord record;
    Descriptor process;
    std::uint64_t seen_ns = 0;
    std::optional<int> wait_status;
    bool ended = false;
  };
  JobWatch(std::unique_ptr<pool::Pool> pool, std::string job, pool::ExitLog exit_log,
           std::string folder, int epoll)
      : pool_(std::move(pool)),
        job_(std::move(job)),
        exit_log_(std::move(exit_log)),
        folder_(std::move(folder)),
        epoll_(epoll),
        foreign_(mpi_segments()) {}
  /// A process that has attached, before the table was read.
  struct Early {
    Descriptor process;
    std::optional<int> wait_status;
  };
  void watch_process(Rank& rank);
  void watch_early(std::int64_t pid);
  std::string others_text() const;
  void note_segments();
  void note_end(std::int64_t pid);
  const Rank* rank_of(std::int64_t pid) const;
  bool stayed(std::int64_t pid) const;
  std::int64_t pid_of(const pool::ExitLog::Event& event) const;
  std::optional<Death> blame(const pool::ExitLog::Event& end) const;
  std::optional<Death> blame_leaver(const pool::ExitLog::Event& left, bool has_victims) const;
  std::optional<Death> find_first() const;
  std::optional<int> status_of(const Rank& rank) const;
  bool all_exited_by_themselves() const;
  std::optional<std::string> find_unfinalized() const;

  std::unique_ptr<pool::Pool> pool_;
  std::string job_;
  pool::ExitLog exit_log_;
  std::string folder_;  ///< of the run, where the exit log is too
  int epoll_;
  std::map<Key, Rank> ranks_;       ///< a process has one for each library of ours that it loads
  std::set<ProcessKey> processes_;  ///< of these ranks
  std::map<std::int64_t, Early> early_;  ///< by pid
  std::uint64_t next_sample_ns_ = 0;
  std::vector<pool::ExitLog::Event> ends_;  ///< and calls of MPI_Abort, in order
  std::set<std::string> segments_;
  std::set<std::string> foreign_;   ///< of other jobs: there before this one began
  std::uint64_t last_seen_ns_ = 0;  ///< when a rank was seen for the first time
  std::optional<Death> first_death_;
  std::optional<std::string> unfinalized_;
  bool done_well_ = false;  ///< the launcher has ended with status 0
};

}  // namespace penstock::tools
