// Keeps forked children away from their parent's resources. A child has the parent's memory,
// mappings and descriptors, but the parent's locks, and its place in a pool, stay the parent's.
#pragma once

#include <cstdint>
#include <memory>

namespace penstock::base {

struct KeptFd;

/// Remembers in which process it was made.
class Origin {
 public:
  Origin();
  /// Returns false in a forked child. One load, no system call.
  bool here() const;

 private:
  std::uint64_t forks_;
};

/// Owns a descriptor that forked children must not keep: a lock taken through it, or an event on
/// its close, must end with this process, however long a child lives. fork() closes it in the child
/// before it returns.
class ProcessFd {
 public:
  ProcessFd();
  explicit ProcessFd(int fd);
  ProcessFd(ProcessFd&& other) noexcept;
  ProcessFd& operator=(ProcessFd&& other) noexcept;
  ~ProcessFd();
  int get() const;  ///< -1: there is none, or this is a forked child

 private:
  std::unique_ptr<KeptFd> kept_;
};

}  // namespace penstock::base
