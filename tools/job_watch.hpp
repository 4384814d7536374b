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
  std::uint32_t ranks = 0, nodes = 0;  ///< of processes that attached
  std::uint64_t messages = 0, bytes = 0;
  std::map<std::string, pool::JobCount> calls;  ///< from ranks that detached in order, by kind
};

class JobWatch {
 public:
  /// The first rank that called MPI_Abort, died, or ended with a nonzero status.
  struct Death {
    std::string who;  ///< "rank 2 (pid 1234, emulated node 1)"
    /// "was killed by signal 9 (Killed)", "called MPI_Abort with code 7", "exited with status 1";
    /// followed by "without finalizing MPI" if it did not finalize
    std::string how;
    bool was_killed = false;  ///< by SIGKILL or SIGTERM, as launchers end remaining ranks
  };

  /// `epoll` reports when a rank of this host ends; its data is the rank's pid. The ranks find
  /// `exit_log` in PENSTOCK_EXIT_LOG.
  static Result<JobWatch> start(const std::string& pool, const std::string& job,
                                const std::string& exit_log, int epoll);

  /// Reads the process table.
  void sample();
  /// The same, unless the table was just read: for a large job that takes milliseconds, and its
  /// ranks attach one by one.
  void sample_when_due();
  /// Call it when the epoll reports that a rank's process has ended.
  void on_exit(pid_t pid);
  /// Call it when the exit log's descriptor is readable: a process has attached or ended.
  void on_exit_log();
  int exit_log_descriptor() const { return exit_log_.descriptor(); }
  /// Call it after the job: finds out which rank died first, and removes what the MPI left in
  /// /dev/shm. If the job `failed` or a rank died, that includes segments of ranks that died too
  /// early to be examined.
  void finish(bool failed);

  /// Whether ranks, or the segments that their MPI makes at its start, are still expected: all that
  /// is not seen before they die stays unknown.
  bool starting(std::uint32_t ranks) const;
  /// Whether a rank of this host died without detaching and no rank that was seen here runs any
  /// more: the launcher has nothing left to wait for.
  bool lost_all() const;
  /// Whether all ranks of this host that were seen have ended.
  bool all_ended() const;
  /// True if a culprit is known: a rank that ended otherwise than by a signal with which launchers
  /// or their proxies end ranks.
  bool has_blame() {
    sample();
    on_exit_log();
    const auto first = find_first();
    return first && !first->was_killed;
  }
  const std::optional<Death>& first_death() const { return first_death_; }
  /// A rank that exited with status 0 without MPI_Finalize, if all ranks exited by themselves: no
  /// rank waited for it then, and it does not count as dead.
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
  /// A process that attached before the table was read.
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
  std::string folder_;  ///< the run's folder, which also holds the exit log
  int epoll_;
  std::map<Key, Rank> ranks_;       ///< a process has one for each Penstock library that it loads
  std::set<ProcessKey> processes_;  ///< the processes of these ranks
  std::map<std::int64_t, Early> early_;  ///< by pid
  std::uint64_t next_sample_ns_ = 0;
  std::vector<pool::ExitLog::Event> ends_;  ///< also calls of MPI_Abort, in order
  std::set<std::string> segments_;
  std::set<std::string> foreign_;   ///< segments of other jobs, which existed before this one began
  std::uint64_t last_seen_ns_ = 0;  ///< when the last new rank was seen
  std::optional<Death> first_death_;
  std::optional<std::string> unfinalized_;
  bool done_well_ = false;  ///< the launcher has ended with status 0
};

}  // namespace penstock::tools
