// A domain's turns in a forked child. threads_test.cpp tests threads that take turns.
#include "turns.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
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

/// The parent forks while a rare call of another thread is in progress.
TEST(Turns, ChildWaitsForNoRareCall) {
  base::skip_unless_fork_is_followed();
  Turns turns(false);
  turns.leave(turns.enter());
  std::thread([&] { turns.enter_alone(); }).join();
  EXPECT_EQ(calls_of_a_child(turns), 7);
}

/// The log of a second thread's first call. `meets`: the first thread is inside meanwhile.
std::string words_of_a_second_thread(Turns& turns, bool meets) {
  testing::internal::CaptureStderr();
  turns.leave(turns.enter());
  const bool locked = meets && turns.enter();
  std::atomic<bool> comes{false};
  std::thread second([&] {
    comes = true;
    turns.leave(turns.enter());
  });
  while (!comes) std::this_thread::yield();
  if (meets) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it is at the door
    turns.leave(locked);
  }
  second.join();
  return testing::internal::GetCapturedStderr();
}

TEST(Turns, NamesASecondThreadByOneWarning) {
  const auto of_one = [] { return 1; };
  const auto of_several = [] { return 0; };
  const auto warnings = [](std::string words) {
    const std::string warning = "a second thread calls MPI";
    int found = 0;
    for (auto at = words.find(warning); at != words.npos; at = words.find(warning, at + 1)) ++found;
    return found;
  };
  Turns promised(false, of_one), both(false, of_one), unknown(false), kept(false, of_several);
  EXPECT_EQ(warnings(words_of_a_second_thread(promised, false)), 1);
  EXPECT_EQ(warnings(words_of_a_second_thread(both, true)), 1);
  EXPECT_EQ(warnings(words_of_a_second_thread(unknown, true)), 1) << "they have met";
  EXPECT_EQ(words_of_a_second_thread(kept, false), "");
}

}  // namespace
}  // namespace penstock::ofi
