// A small pool for one test, which is removed whatever happens, and children that attach to it.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>

#include "arena/arena.hpp"
#include "base/fork_in_tests.hpp"

namespace penstock::arena {

/// An attachment with its arena.
struct Attached {
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<Arena> arena;

  Arena* operator->() const { return arena.get(); }
};

class TestPool {
 public:
  explicit TestPool(std::uint64_t bytes, coherence::Mode mode = coherence::Mode::software)
      : spec_(fmt::format("shm:penstock-arena-test-{}-{}", getpid(), ++counter())) {
    pool::CreateOptions options;
    options.spec = spec_;
    options.bytes = bytes;
    options.mode = mode;
    options.max_processes = 64;
    options.max_nodes = 4;
    const auto created = pool::create(options);
    EXPECT_TRUE(created) << created.error().message;
  }
  ~TestPool() {
    if (getpid() == maker_) (void)pool::remove(spec_, true);
  }
  TestPool(const TestPool&) = delete;
  TestPool& operator=(const TestPool&) = delete;

  const std::string& spec() const { return spec_; }

  Attached attach(pool::AttachOptions options = {}) const {
    options.spec = spec_;
    Attached attached;
    auto mapped = pool::Pool::attach(options);
    if (!mapped) throw std::runtime_error(mapped.error().message);
    attached.pool = std::move(*mapped);
    auto opened = Arena::open(*attached.pool);
    if (!opened) throw std::runtime_error(opened.error().message);
    attached.arena = std::move(*opened);
    return attached;
  }

 private:
  static int& counter() {
    static int count = 0;
    return count;
  }
  std::string spec_;
  pid_t maker_ = getpid();
};

/// Forks. The child's exit status is what `body` returns, 99 if it throws.
inline pid_t start_child(const std::function<int()>& body) {
  base::skip_unless_fork_is_followed();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  try {
    _exit(body());
  } catch (const std::exception& caught) {
    fmt::print(stderr, "child: {}\n", caught.what());
    _exit(99);
  }
}

/// Returns the exit status, or 128 + the signal.
inline int wait_child(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline int run_child(const std::function<int()>& body) {
  return wait_child(start_child(body));
}

}  // namespace penstock::arena
