// The order in which the processes of one host leave a pool, as the kernel reports it.
//
// Each process that has attached keeps a file of its own open until it ends; the kernel closes it
// in the middle of the process's end, before a launcher can see the end and kill the others, and
// queues the event. So the order is right however late it is read, also for processes that were
// never looked at before. Another file, one an attachment, stays when its process ends without
// leaving the pool.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace penstock::pool {

/// The side of an attached process, not of children that it forks. Without PENSTOCK_EXIT_LOG, or
/// where that folder cannot be written (another host's), it does nothing.
class ExitLogEntry {
 public:
  ExitLogEntry() = default;
  ExitLogEntry(std::uint64_t pool_id, std::uint32_t slot, std::uint64_t generation);
  /// It leaves in order: there is no death to report. Leaves the process's counts (job_counts.hpp).
  void sign_off();

 private:
  std::string path_;
  std::int64_t process_ = 0;  ///< not a child that it forks
};

/// This process is about to call MPI_Abort: the launcher may kill others before it ends itself.
void tell_of_abort(int code);
/// Exists while the MPI handles an error of this thread: if the error ends the job, the handler
/// never returns. For nested errors (a handler's own) the outermost is noted.
class ErrorNote {
 public:
  ErrorNote();
  ~ErrorNote();
  ErrorNote(const ErrorNote&) = delete;
  ErrorNote& operator=(const ErrorNote&) = delete;
};
/// This process is about to finalize MPI: if others wait for it, their calls will fail.
void tell_of_finalize();

/// The observer's side.
class ExitLog {
 public:
  struct Event {
    enum class Kind { attached, finalizes, left, fails, aborts, ended } kind = Kind::ended;
    std::int64_t pid = 0;  ///< unknown for processes that `left`
    int abort_code = 0;
    std::int64_t thread = 0;  ///< the one that `fails`
    std::uint32_t slot = 0;   ///< the one it left
    std::uint64_t generation = 0;
  };
  /// Watches events of pool `pool_id` in `folder` from now on. Errors: the folder is absent, no
  /// inotify left.
  static Result<ExitLog> watch(const std::string& folder, std::uint64_t pool_id);
  /// Events since the last call, in order: a process attached for the first time, called
  /// MPI_Finalize or MPI_Abort, met an error of MPI, left the pool in order, ended. A process with
  /// two libraries of ours is reported twice.
  std::vector<Event> events();
  /// True if its process ended, or dropped the entry, without leaving the pool.
  bool stayed(std::uint32_t slot, std::uint64_t generation) const;
  /// True if the error of MPI that `fails` reported has not returned to the program.
  bool stands(const Event& fails) const;
  int descriptor() const { return events_.get(); }  ///< readable when something has happened

 private:
  ExitLog(std::string folder, std::uint64_t pool_id, base::UniqueFd events)
      : folder_(std::move(folder)), pool_id_(pool_id), events_(std::move(events)) {}
  std::string folder_;
  std::uint64_t pool_id_;
  base::UniqueFd events_;
};

}  // namespace penstock::pool
