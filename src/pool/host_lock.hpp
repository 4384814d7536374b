// Exclusion between the processes of one host: flock on the first part's file. The kernel drops it
// when the holder dies. Every attachment has opened the file by itself, so two attachments of one
// process exclude each other as well.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace penstock::pool {

class HostLock {
 public:
  /// `fd` outlives the lock. Errors: deadline, unavailable.
  static Result<HostLock> acquire(int fd, std::uint64_t timeout_ns);
  HostLock(HostLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  HostLock& operator=(HostLock&&) = delete;
  ~HostLock();

 private:
  explicit HostLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace penstock::pool
