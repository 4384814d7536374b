// Owner of a file descriptor.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace penstock::base {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// Opens the same file once more. A flock belongs to an opening, which ends with the last mapping
/// made through it: in a forked child, that may be after the process that locked.
inline UniqueFd reopened(const UniqueFd& fd) {
  const int access = ::fcntl(fd.get(), F_GETFL) & O_ACCMODE;
  const std::string self = "/proc/self/fd/" + std::to_string(fd.get());
  return UniqueFd(::open(self.c_str(), access | O_CLOEXEC | O_NONBLOCK));
}

}  // namespace penstock::base
