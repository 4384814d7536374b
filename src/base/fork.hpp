// What a forked child must leave alone. It has its parent's memory, mappings and descriptors, but
// is another process: what the parent has in a pool, and the locks it holds, are the parent's.
#pragma once

#include <cstdint>
#include <memory>

namespace penstock::base {

struct KeptFd;

/// Remembers in which process it was made.
class Origin {
 public:
  Origin();
  /// False in a forked child. One load, no system call.
  bool here() const;

 private:
  std::uint64_t forks_;
};

/// Owner of a descriptor that forked children do not keep: a lock that is taken by it, or what is
/// told when it is closed, must end with this process, however long a child lives. In a child it is
/// closed before fork() returns.
class ProcessFd {
 public:
  ProcessFd();
  explicit ProcessFd(int fd);
  ProcessFd(ProcessFd&& other) noexcept;
  ProcessFd& operator=(ProcessFd&& other) noexcept;
  ~ProcessFd();
  int get() const;  ///< -1: none, or this is a forked child

 private:
  std::unique_ptr<KeptFd> kept_;
};

}  // namespace penstock::base
