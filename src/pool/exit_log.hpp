// The order in which the processes of one host leave a pool, as the kernel reports it.
//
// Each attached process keeps its own file open until it ends. The kernel closes the file in the
// middle of the process's end, before a launcher can notice the end and kill other processes, and
// queues the event. So the order is right even if it is read late, also for processes that were
// never checked before. A second file, one per attachment, remains if its process ends without
// leaving the pool.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace penstock::pool {

/// The side of an attached process, not of its forked children. Does nothing without
/// PENSTOCK_EXIT_LOG, or if that folder is not writable (another host's).
class ExitLogEntry {
 public:
  ExitLogEntry() = default;
  ExitLogEntry(std::uint64_t pool_id, std::uint32_t slot, std::uint64_t generation);
  /// Records that the process leaves in order, and writes its counts (job_counts.hpp).
  void sign_off();

 private:
  std::string path_;
  std::int64_t process_ = 0;  ///< pid; excludes forked children
};

/// Call it before MPI_Abort: the launcher may kill other processes before this one ends.
void note_abort(int code);
/// Exists while the MPI handles an error of this thread: if the error ends the job, the handler
/// never returns. Of nested errors (in a handler) only the outermost is noted.
class ErrorNote {
 public:
  ErrorNote();
  ~ErrorNote();
  ErrorNote(const ErrorNote&) = delete;
  ErrorNote& operator=(const ErrorNote&) = delete;
};
/// Call it before MPI is finalized: calls of processes that wait for this one will then fail.
void note_finalize();

/// The observer's side.
class ExitLog {
 public:
  struct Event {
    enum class Kind { attached, finalizes, left, fails, aborts, ended } kind = Kind::ended;
    std::int64_t pid = 0;  ///< unknown for processes that `left`
    int abort_code = 0;
    std::int64_t thread = 0;  ///< the thread that `fails`
    std::uint32_t slot = 0;   ///< the slot that it `left`
    std::uint64_t generation = 0;
  };
  /// Watches events of pool `pool_id` in `folder` from now on. Errors: internal (the folder is
  /// absent, or inotify instances are used up).
  static Result<ExitLog> watch(const std::string& folder, std::uint64_t pool_id);
  /// Events since the last call, in order: a process attached for the first time, called
  /// MPI_Finalize or MPI_Abort, met an MPI error, left the pool in order, or ended. A process with
  /// two of our libraries is reported twice.
  std::vector<Event> events();
  /// True if its process ended, or dropped the entry, without leaving the pool.
  bool stayed(std::uint32_t slot, std::uint64_t generation) const;
  /// True if the MPI error that `fails` reported has not returned to the program.
  bool error_pending(const Event& fails) const;
  int descriptor() const { return events_.get(); }  ///< readable when there are events

 private:
  ExitLog(std::string folder, std::uint64_t pool_id, base::UniqueFd events)
      : folder_(std::move(folder)), pool_id_(pool_id), events_(std::move(events)) {}
  std::string folder_;
  std::uint64_t pool_id_;
  base::UniqueFd events_;
};

}  // namespace penstock::pool
