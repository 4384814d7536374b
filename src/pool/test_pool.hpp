// Helpers of the pool's tests: pools that are removed afterwards, and child processes.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "base/fork_in_tests.hpp"
#include "device/superblock.hpp"
#include "device/test_folder.hpp"
#include "pool/members.hpp"
#include "pool/pool.hpp"
#include "pool/reclaim.hpp"

namespace penstock::pool {

using device::TestFolder;
using device::unique_name;

inline constexpr std::uint64_t test_pool_bytes = 16ull << 20;

class Child;

/// Gives each test its own folder for a fresh pool.
class PoolTest : public testing::Test {
 protected:
  CreateOptions create_options() const {
    return {.spec = spec_, .bytes = test_pool_bytes, .mode = coherence::Mode::software};
  }
  void create(std::uint32_t processes = 16, std::uint32_t nodes = 4) {
    CreateOptions options = create_options();
    options.max_processes = processes;
    options.max_nodes = nodes;
    auto created = pool::create(options);
    ASSERT_TRUE(created) << created.error().message;
  }
  std::unique_ptr<Pool> attach(AttachOptions options = {}) const {
    options.spec = spec_;
    auto pool = Pool::attach(options);
    if (!pool) {
      ADD_FAILURE() << pool.error().message;
      return nullptr;
    }
    return std::move(*pool);
  }
  /// A process that attaches, reports its token and waits to be killed.
  inline Child attached_child(const AttachOptions& options = {}) const;
  Error attach_error(AttachOptions options = {}) const {
    options.spec = spec_;
    auto pool = Pool::attach(options);
    if (!pool) return pool.error();
    ADD_FAILURE() << "attached";
    return Error{ErrorCode::internal, "attached"};
  }

  TestFolder folder_;
  std::string spec_ = folder_.file("pool");
};

/// A forked process that runs `body`. `body` gets a function that reports one word to the parent,
/// and returns the exit status. The destructor kills the process.
class Child {
 public:
  using Report = std::function<void(std::uint64_t)>;
  explicit Child(const std::function<int(const Report&)>& body) {
    base::skip_unless_fork_is_followed();
    int pipe_fds[2];
    if (::pipe2(pipe_fds, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      const int status = body([&](std::uint64_t word) {
        if (::write(pipe_fds[1], &word, sizeof word) != sizeof word) ::_exit(99);
      });
      ::_exit(status);
    }
    ::close(pipe_fds[1]);
    reports_ = pipe_fds[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!ended_) {
      kill(SIGKILL);
      wait();
    }
    ::close(reports_);
  }
  /// 0 if the child ended without a further report.
  std::uint64_t next_report() const {
    std::uint64_t word = 0;
    return ::read(reports_, &word, sizeof word) == sizeof word ? word : 0;
  }
  void kill(int signal) const { ::kill(pid_, signal); }
  /// Waits until it is a zombie, without collecting it.
  void wait_until_zombie() const {
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  void wait_until_stopped() const {
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED);
  }
  int wait() {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int reports_ = -1;
  bool ended_ = false;
};

[[noreturn]] inline void sleep_until_killed() {
  for (;;) ::pause();
}

inline Child PoolTest::attached_child(const AttachOptions& options) const {
  return Child([this, options](const Child::Report& report) {
    auto pool = attach(options);
    if (!pool) return 2;
    report(pool->token());
    sleep_until_killed();
  });
}

}  // namespace penstock::pool
