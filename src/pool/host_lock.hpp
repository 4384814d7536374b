// Exclusion between the processes of one host: flock on the first part's file. The kernel drops it
// when the holder dies. Every attachment has opened the file by itself, so two attachments of one
// process exclude each other as well.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.hpp"

namespace penstock::pool {

class HostLock {
 public:
  /// `fd` outlives the lock. `unless`: asked while another has it. Errors: deadline, unavailable;
  /// already_exists when `unless` says true.
  static Result<HostLock> acquire(int fd, std::uint64_t timeout_ns,
                                  const std::function<bool()>& unless = {});
  HostLock(HostLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  HostLock& operator=(HostLock&&) = delete;
  ~HostLock();

 private:
  explicit HostLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace penstock::pool
