// A domain's turns in a forked child. Threads that take turns: threads_test.cpp.
#include "turns.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/fork_in_tests.hpp"

namespace penstock::ofi {
namespace {

constexpr unsigned longest_s = 30;

/// The exit status of a child that makes calls of both kinds.
int calls_of_a_child(Turns& turns) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(longest_s);
    turns.leave(turns.enter());
    turns.enter_alone();
    turns.leave_alone();
    ::_exit(7);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Turns, ChildWaitsForNoThreadOfItsParent) {
  base::skip_unless_fork_is_followed();
  for (const bool always : {false, true}) {
    Turns turns(always);
    turns.leave(turns.enter());
    std::thread([&] { turns.leave(turns.enter()); }).join();
    ASSERT_TRUE(turns.shared()) << "two threads have called";
    const bool locked = turns.enter();
    EXPECT_EQ(calls_of_a_child(turns), 7) << "the mutex was held when the process forked";
    turns.leave(locked);
  }
}

/// A rare call of another thread is under way.
TEST(Turns, ChildWaitsForNoRareCall) {
  base::skip_unless_fork_is_followed();
  Turns turns(false);
  turns.leave(turns.enter());
  std::thread([&] { turns.enter_alone(); }).join();
  EXPECT_EQ(calls_of_a_child(turns), 7);
}

}  // namespace
}  // namespace penstock::ofi
