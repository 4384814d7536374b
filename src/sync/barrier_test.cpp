#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "sync/sync.hpp"
#include "sync/test_memory.hpp"

namespace penstock::sync {
namespace {

using testing::HasSubstr;

bool everybody_lives(std::uint64_t) {
  return true;
}

class BarrierTest : public EachMode {};
INSTANTIATE_TEST_SUITE_P(Modes, BarrierTest, both_modes(), mode_suffix);

TEST_P(BarrierTest, NobodyLeavesBeforeAllHaveArrived) {
  constexpr std::uint32_t count = 4;
  constexpr std::uint64_t rounds = 300;
  Lines lines(Barrier::bytes(count));
  Lines data(64 * count);
  std::uint64_t wrong[count] = {}, failed[count] = {};
  std::vector<std::thread> threads;
  for (std::uint32_t self = 0; self < count; ++self) {
    threads.emplace_back([&, self] {
      Barrier barrier(memory_, lines.get(), count, self, self + 1, everybody_lives);
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        memory_.publish_word(data.line(self), round);
        if (!barrier.wait(30'000 * ms)) {
          ++failed[self];
          return;
        }
        for (std::uint32_t other = 0; other < count; ++other) {
          // A participant that ran ahead may be in the next round, never further.
          const std::uint64_t seen = memory_.observe_word(data.line(other));
          if (seen < round || seen > round + 1) ++wrong[self];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t self = 0; self < count; ++self) {
    EXPECT_EQ(failed[self], 0u);
    EXPECT_EQ(wrong[self], 0u);
  }
}

TEST_P(BarrierTest, DeadlineNamesTheMissing) {
  Lines lines(Barrier::bytes(5));
  Barrier zero(memory_, lines.get(), 5, 0, 1, everybody_lives);
  Barrier two(memory_, lines.get(), 5, 2, 3, everybody_lives);
  EXPECT_FALSE(zero.wait(1 * ms));
  auto waited = two.wait(1 * ms);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::deadline);
  EXPECT_THAT(waited.error().message, HasSubstr("barrier 1 misses 3 of 5 participants: 1, 3, 4"));
}

TEST_P(BarrierTest, RepeatsWaitAfterDeadline) {
  Lines lines(Barrier::bytes(2));
  Barrier zero(memory_, lines.get(), 2, 0, 1, everybody_lives);
  Barrier one(memory_, lines.get(), 2, 1, 2, everybody_lives);
  EXPECT_FALSE(zero.wait(1 * ms));
  EXPECT_TRUE(one.wait(1 * ms));
  EXPECT_TRUE(zero.wait(1 * ms));
  EXPECT_FALSE(zero.wait(1 * ms));
  EXPECT_TRUE(one.wait(1 * ms));
}

TEST_P(BarrierTest, ADeadParticipantIsNamed) {
  Lines lines(Barrier::bytes(3));
  auto two_is_dead = [](std::uint64_t token) { return token != 12; };
  {
    Barrier one(memory_, lines.get(), 3, 1, 11, everybody_lives);
    Barrier two(memory_, lines.get(), 3, 2, 12, everybody_lives);
    EXPECT_FALSE(one.wait(1 * ms));
    EXPECT_FALSE(two.wait(1 * ms));
  }
  Barrier zero(memory_, lines.get(), 3, 0, 10, two_is_dead);
  // Participant 2 arrived in the first barrier before it died: that one is complete.
  EXPECT_TRUE(zero.wait(1000 * ms));
  Barrier one(memory_, lines.get(), 3, 1, 11, two_is_dead);
  EXPECT_TRUE(one.wait(1000 * ms));
  EXPECT_FALSE(one.wait(1 * ms));
  auto waited = zero.wait(30'000 * ms);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::peer_dead);
  EXPECT_THAT(waited.error().message, HasSubstr("barrier 2: participant 2 of 3 died"));
  zero.describe_by([](std::uint64_t token) { return "process " + std::to_string(token); });
  EXPECT_THAT(zero.wait(30'000 * ms).error().message,
              HasSubstr("participant 2 of 3 (process 12) died"));
}

TEST_P(BarrierTest, AloneIsAtOnce) {
  Lines lines(Barrier::bytes(1));
  Barrier barrier(memory_, lines.get(), 1, 0, 1, everybody_lives);
  EXPECT_TRUE(barrier.wait(1 * ms));
  EXPECT_TRUE(barrier.wait(1 * ms));
}

}  // namespace
}  // namespace penstock::sync
