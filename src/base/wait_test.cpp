#include "base/wait.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/clock.hpp"
#include "base/cpus.hpp"
#include "base/fork_in_tests.hpp"
#include "base/format.hpp"
#include "base/interruptible.hpp"

namespace penstock::base {
namespace {

using testing::HasSubstr;

constexpr WaitPolicy all_phases{.spins = 300, .yields = 100, .sleep_ns = 100'000};

Error wait_in_vain(Waiter& waiter) {
  while (true) {
    if (auto result = waiter.pause(); !result) return result.error();
  }
}

TEST(Waiter, EndsAtItsDeadlineAndNamesTheWait) {
  Waiter waiter("the other end", 3'000'000, {}, all_phases);
  const Error error = wait_in_vain(waiter);
  EXPECT_EQ(error.code, ErrorCode::deadline);
  EXPECT_THAT(error.message, HasSubstr("the other end"));
  EXPECT_GE(waiter.waited_ns(), 3'000'000u);
}

TEST(Waiter, EndsAtItsDeadlineInEveryPhase) {
  const WaitPolicy spinning{.spins = UINT32_MAX};
  const WaitPolicy yielding{.spins = 0, .yields = UINT32_MAX};
  const WaitPolicy sleeping{.spins = 0, .yields = 0};
  for (const WaitPolicy& policy : {spinning, yielding, sleeping}) {
    Waiter waiter("nothing", 2'000'000, {}, policy);
    EXPECT_EQ(wait_in_vain(waiter).code, ErrorCode::deadline);
  }
}

TEST(Waiter, DoesNotEndBeforeItsDeadline) {
  Waiter waiter("a long time", 3'600'000'000'000, {},
                {.spins = 2000, .yields = 200, .sleep_ns = 1});
  for (int i = 0; i < 4000; ++i) ASSERT_TRUE(waiter.pause());
}

TEST(Waiter, GivesWhatTheDeadCheckSays) {
  int checks = 0;
  const DeadCheck dead = [&]() -> Result<void> {
    if (++checks < 2) return {};
    return fail(ErrorCode::peer_dead, "rank 3 died");
  };
  Waiter waiter("rank 3", 10'000'000'000, dead, all_phases);
  const Error error = wait_in_vain(waiter);
  EXPECT_EQ(error.code, ErrorCode::peer_dead);
  EXPECT_EQ(error.message, "rank 3 died");
  EXPECT_EQ(checks, 2);
  EXPECT_GE(waiter.waited_ns(), 40'000'000u) << "at most one check every 20 ms";
}

TEST(Waiter, GivesWhatInterruptsItsThread) {
  const DeadCheck outer = [] { return fail(ErrorCode::unavailable, "outer"); };
  const DeadCheck inner = [] { return fail(ErrorCode::unavailable, "inner"); };
  const Interruptible interruptible(outer);
  {
    const Interruptible nested(inner);
    Waiter waiter("nothing", 10'000'000'000, {}, all_phases);
    EXPECT_EQ(wait_in_vain(waiter).message, "inner");
  }
  Waiter waiter("nothing", 10'000'000'000, {}, all_phases);
  EXPECT_EQ(wait_in_vain(waiter).message, "outer");
  std::thread([&] {
    Waiter elsewhere("nothing", 30'000'000, {}, all_phases);
    EXPECT_EQ(wait_in_vain(elsewhere).code, ErrorCode::deadline) << "of another thread";
  }).join();
}

/// A stopped process cannot know whether it would have waited in vain.
TEST(Waiter, AStopOfTheProcessDoesNotCount) {
  skip_unless_fork_is_followed();
  const pid_t child = ::fork();
  if (child == 0) {
    Waiter waiter("what comes late", 2'000'000'000);
    ::raise(SIGSTOP);
    for (int polls = 0; polls < 300; ++polls) {
      if (!waiter.pause()) ::_exit(1);
    }
    ::_exit(0);
  }
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  ::kill(child, SIGCONT);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(AwakeClock, OneStepCountsForSoMuchAtMost) {
  AwakeClock clock(1'000'000);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(clock.now_ns(), 1'000'000u);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(clock.now_ns(), 2'000'000u);
}

TEST(WaitPolicy, SpinsLongOnlyWithCorePerProcess) {
  const std::uint32_t cpus = std::max(usable_cpus(), shared_cpus());
  EXPECT_GT(WaitPolicy::for_processes(cpus).spins, 1000u);
  EXPECT_LT(WaitPolicy::for_processes(cpus + 1).spins, 100u);
}

TEST(WaitPolicy, ManyProcessesPerCoreSleepEarly) {
  const std::uint32_t cpus = std::max(usable_cpus(), shared_cpus());
  const WaitPolicy alone = WaitPolicy::for_processes(cpus);
  const WaitPolicy hundreds = WaitPolicy::for_processes(256 * cpus);
  EXPECT_GE(hundreds.sleep_ns, 100 * alone.sleep_ns);
  EXPECT_LE(hundreds.yields, alone.yields / 100);
  EXPECT_GT(hundreds.yields, 0u);
  EXPECT_LE(WaitPolicy::for_processes(1u << 30).sleep_ns, 1'000'000'000u);
}

TEST(WaitPolicyDeathTest, VariableOverridesTheSpins) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("PENSTOCK_SPIN", "7", 1);
        _exit(static_cast<int>(WaitPolicy::for_processes(1).spins));
      },
      testing::ExitedWithCode(7), "");
}

TEST(WaiterDeathTest, DefaultDeadlineComesFromTheVariable) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("PENSTOCK_TIMEOUT_MS", "2", 1);
        Waiter waiter("nobody", 0, {}, all_phases);
        fmt::print(stderr, "{}", wait_in_vain(waiter).message);
        _exit(0);
      },
      testing::ExitedWithCode(0), "for nobody.*export PENSTOCK_TIMEOUT_MS=20");
}

TEST(Clock, MonotonicTimeDoesNotRunBackwards) {
  std::uint64_t before = now_ns();
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t now = now_ns();
    ASSERT_GE(now, before);
    before = now;
  }
  EXPECT_GT(wall_ns(), 1'700'000'000'000'000'000u);
}

}  // namespace
}  // namespace penstock::base
