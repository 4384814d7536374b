// Two sides in one process: two attachments to a pool, a thread for each. sim/tests/litmus_test.cpp
// tests memory without coherence.
#include "litmus/rendezvous.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "arena/test_pool.hpp"
#include "litmus/layout.hpp"

namespace penstock::litmus {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

class RendezvousTest : public ::testing::TestWithParam<coherence::Mode> {};

TEST_P(RendezvousTest, BothSidesComeToTheSame) {
  const arena::TestPool pool(device::min_pool_bytes, GetParam());
  const auto one = pool.attach({.emulated_node = 0}), two = pool.attach({.emulated_node = 1});
  Result<Outcome> first, second;
  std::thread other(
      [&] { second = run(*two.arena, {.rounds = 50, .timeout_ns = 60 * second_ns}); });
  first = run(*one.arena, {.rounds = 50, .timeout_ns = 60 * second_ns});
  other.join();
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_NE(first->self, second->self);
  EXPECT_TRUE(first->same_host && !first->same_node);
  for (const auto& outcome : {*first, *second}) {
    EXPECT_EQ(judge(outcome.report).kind, Kind::coherent);
    EXPECT_EQ(outcome.report.rounds, 50u);
    EXPECT_TRUE(outcome.report.all_right(Trial::words));
  }
  EXPECT_TRUE(one->list().empty());
}

INSTANTIATE_TEST_SUITE_P(Modes, RendezvousTest,
                         ::testing::Values(coherence::Mode::software, coherence::Mode::hardware),
                         [](const auto& mode) { return coherence::mode_name(mode.param); });

TEST(Rendezvous, NobodyComes) {
  const arena::TestPool pool(device::min_pool_bytes);
  const auto one = pool.attach();
  int alone = 0;
  const auto outcome =
      run(*one.arena, {.rounds = 5, .timeout_ns = second_ns / 10, .alone = [&alone] { ++alone; }});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::deadline);
  EXPECT_EQ(alone, 1);
  EXPECT_TRUE(one->list().empty());
}

TEST(Rendezvous, ACountThatCannotBe) {
  const arena::TestPool pool(device::min_pool_bytes);
  const auto one = pool.attach();
  for (const std::uint64_t rounds : {std::uint64_t{0}, max_rounds + 1}) {
    const auto outcome = run(*one.arena, {.rounds = rounds});
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::invalid_argument);
  }
}

TEST(Rendezvous, AnObjectOfThatNameThatIsNone) {
  const arena::TestPool pool(device::min_pool_bytes);
  const auto one = pool.attach();
  const auto made = one->create(object_name, 64);
  ASSERT_TRUE(made);
  const auto outcome = run(*one.arena, {.timeout_ns = second_ns / 10});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::mismatch);
  EXPECT_EQ(one->list().size(), 1u) << "it is somebody's";
}

/// A side that dies before the other one comes does not block later tests.
TEST(Rendezvous, WhoDiedWaitingIsNotMet) {
  const arena::TestPool pool(device::min_pool_bytes);
  const auto one = pool.attach();
  const pid_t child = fork();
  if (child == 0) {
    const auto dying = pool.attach();
    (void)run(*dying.arena, {.timeout_ns = 60 * second_ns, .alone = [] { _exit(0); }});
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(one->list().size(), 1u);
  const auto two = pool.attach();
  Result<Outcome> first, second;
  std::thread other([&] { second = run(*two.arena, {.rounds = 5, .timeout_ns = 60 * second_ns}); });
  first = run(*one.arena, {.rounds = 5, .timeout_ns = 60 * second_ns});
  other.join();
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(one->list().empty());
}

}  // namespace
}  // namespace penstock::litmus
