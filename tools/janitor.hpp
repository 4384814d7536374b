// A small process beside `penstock run` that ends what is left of the job and removes its
// temporary pool once `run` is gone, however it went: also by SIGKILL.
#pragma once

#include <sys/types.h>

#include <string>

#include "job_processes.hpp"
#include "penstock/status.hpp"

namespace penstock::tools {

class Janitor {
 public:
  /// Forks: call it before any thread is started. `temporary_pool` may be "" (nothing to remove).
  static Result<Janitor> start(const std::string& job, const std::string& temporary_pool);
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
