// The processes of one job on this host, found by PENSTOCK_JOB in their environment: launchers put
// ranks into sessions of their own, so process groups do not find them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::tools {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Descriptor() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset(int fd = -1);
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_ = -1;
};

/// pidfd_open: readable once the process has ended. Not valid if there is no such process.
Descriptor open_process(pid_t pid);

/// Sends `signal` to every process of `job`; returns their number (without zombies). Signal 0 only
/// counts. Safe against reused process ids.
std::uint32_t signal_job(const std::string& job, int signal);

/// Returns every running process of `job` except this one.
std::vector<pid_t> processes_of(const std::string& job);

/// The wait status of a process that has ended, or is about to; `process` is its descriptor.
/// Nullopt if it still runs, or is gone and the kernel (before 6.15) keeps no record of it.
std::optional<int> status_of_ended(pid_t pid, const Descriptor& process);

/// Describes a wait status: "was killed by signal 9 (Killed)" or "exited with status 1".
std::string verdict_of(int wait_status);

}  // namespace penstock::tools
