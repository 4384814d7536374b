// A small process beside `penstock run` that ends what is left of the job and removes its
// temporary pool and folder once `run` is gone, however it went: also by SIGKILL.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.hpp"
#include "job_processes.hpp"

namespace penstock::tools {

/// Removes what runs left that were killed together with their janitors: the folders below
/// `temporary`, some seconds old, and the MPI's segments that are noted there.
void tidy_after_the_killed(const std::string& temporary);

class Janitor {
 public:
  /// The resources of this run; they need not exist yet.
  struct Charge {
    std::string job;
    std::string pool;  ///< "" : nothing to remove
    std::string folder;
  };
  /// Forks: call it before any thread is started.
  static Result<Janitor> start(const Charge& charge);
  Janitor(Janitor&& other) noexcept : pid_(other.pid_), alive_(std::move(other.alive_)) {
    other.pid_ = -1;
  }
  Janitor& operator=(Janitor&&) = delete;
  /// Has it do its work now and waits for it.
  ~Janitor();

 private:
  Janitor(pid_t pid, Descriptor alive) : pid_(pid), alive_(std::move(alive)) {}
  pid_t pid_;
  Descriptor alive_;  ///< the write end of a pipe; it closes when `run` ends in whatever way
};

}  // namespace penstock::tools
