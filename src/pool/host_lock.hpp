// Exclusion between the processes of one host: flock on the first part's file. The kernel releases
// it when the holder dies. Every attachment has its own open file, so two attachments of one
// process exclude each other too.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.hpp"

namespace penstock::pool {

class HostLock {
 public:
  /// `fd` must outlive the lock. `unless`: called while another process holds it. Errors: deadline,
  /// unavailable; already_exists (`unless` returned true).
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
