// A small process beside `penstock run`. Once `run` has ended, even by SIGKILL, it ends the rest of
// the job and removes its temporary pool and folder.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.hpp"
#include "job_processes.hpp"

namespace penstock::tools {

/// Cleans up after runs that were killed together with their janitors: removes their folders below
/// `temporary` that are some seconds old, and the MPI segments noted in these.
void tidy_after_the_killed(const std::string& temporary);

class Janitor {
 public:
  /// The resources of this run; they may not exist yet.
  struct Charge {
    std::string job;
    std::string pool;  ///< "" : there is none to remove
    std::string folder;
  };
  /// Forks: call it before any thread is started.
  static Result<Janitor> start(const Charge& charge);
  Janitor(Janitor&& other) noexcept : pid_(other.pid_), alive_(std::move(other.alive_)) {
    other.pid_ = -1;
  }
  Janitor& operator=(Janitor&&) = delete;
  /// Makes the janitor do its work now, and waits for it.
  ~Janitor();

 private:
  Janitor(pid_t pid, Descriptor alive) : pid_(pid), alive_(std::move(alive)) {}
  pid_t pid_;
  Descriptor alive_;  ///< the write end of a pipe, which closes when `run` ends in any way
};

}  // namespace penstock::tools
