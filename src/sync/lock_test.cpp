#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

#include "sync/lock_line.hpp"
#include "sync/sync.hpp"
#include "sync/test_memory.hpp"

namespace penstock::sync::lock_test {
namespace {

using testing::HasSubstr;

bool everybody_lives(std::uint64_t) {
  return true;
}

class LockTest : public EachMode {};
INSTANTIATE_TEST_SUITE_P(Modes, LockTest, both_modes(), mode_suffix);

TEST_P(LockTest, CountersUnderTheLockLoseNothing) {
  constexpr std::uint32_t count = 5;
  constexpr std::uint64_t rounds = 150;
  Lines lines(Lock::bytes(count));
  Lines counter(64);
  std::atomic<int> inside{0};
  std::atomic<std::uint64_t> overlaps{0}, failures{0};
  std::vector<std::thread> threads;
  for (std::uint32_t self = 0; self < count; ++self) {
    threads.emplace_back([&, self] {
      Lock lock(memory_, lines.get(), count, self, 100 + self, everybody_lives);
      for (std::uint64_t round = 0; round < rounds; ++round) {
        if (!lock.acquire(60'000 * ms)) {
          ++failures;
          return;
        }
        if (inside.fetch_add(1) != 0) ++overlaps;
        const std::uint64_t value = memory_.observe_word(counter.get());
        if (round % 16 == 0) std::this_thread::yield();
        memory_.publish_word(counter.get(), value + 1);
        inside.fetch_sub(1);
        lock.release();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(overlaps, 0u);
  EXPECT_EQ(memory_.observe_word(counter.get()), count * rounds);
}

TEST_P(LockTest, TwoParticipantsAtFullSpeedExclude) {
  // Short critical sections find a missing store -> load fence soonest.
  constexpr std::uint64_t rounds = 10'000;
  Lines lines(Lock::bytes(2));
  // Loaded and stored separately: without exclusion, increments are lost. Atomic only for the
  // thread sanitizer, which does not see the order that fences and vector stores give.
  std::atomic<std::uint64_t> counter{0};
  std::atomic<std::uint64_t> failures{0};
  std::atomic<int> started{0};
  auto work = [&](std::uint32_t self) {
    Lock lock(memory_, lines.get(), 2, self, 1 + self, everybody_lives);
    started.fetch_add(1);
    while (started.load() < 2) std::this_thread::yield();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (!lock.acquire(60'000 * ms)) {
        ++failures;
        return;
      }
      counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      lock.release();
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(counter, 2 * rounds);
}

TEST_P(LockTest, SharedHoldersExcludeExclusiveOnes) {
  Lines lines(Lock::bytes(4));
  const auto lock = [&](std::uint32_t self) {
    return Lock(memory_, lines.get(), 4, self, 100 + self, everybody_lives);
  };
  Lock reader = lock(0), other_reader = lock(1), writer = lock(2);
  ASSERT_TRUE(reader.acquire(1000 * ms, Hold::shared));
  ASSERT_TRUE(other_reader.acquire(1000 * ms, Hold::shared));
  EXPECT_EQ(writer.acquire(5 * ms).error().code, ErrorCode::deadline);
  reader.release();
  EXPECT_EQ(writer.acquire(5 * ms).error().code, ErrorCode::deadline);
  other_reader.release();
  ASSERT_TRUE(writer.acquire(1000 * ms));
  EXPECT_EQ(reader.acquire(5 * ms, Hold::shared).error().code, ErrorCode::deadline);
  writer.release();
  EXPECT_TRUE(reader.acquire(1000 * ms, Hold::shared));
}

TEST_P(LockTest, SharedWaiterQueuesBehindExclusiveOne) {
  Lines lines(Lock::bytes(3));
  Lock reader(memory_, lines.get(), 3, 0, 100, everybody_lives);
  ASSERT_TRUE(reader.acquire(1000 * ms, Hold::shared));
  std::atomic<bool> queued{false}, tried{false}, may_release{false};
  std::thread writer([&] {
    Lock lock(memory_, lines.get(), 3, 1, 101, everybody_lives);
    const auto stand_still = [&] {  // before it passes the holder over
      queued = true;                // it polls, so it has drawn its number
      while (!tried) std::this_thread::yield();
    };
    EXPECT_TRUE(lock.acquire(30'000 * ms, Hold::exclusive, stand_still));
    while (!may_release) std::this_thread::yield();
    lock.release();
  });
  while (!queued) std::this_thread::yield();
  Lock late(memory_, lines.get(), 3, 2, 102, everybody_lives);
  const auto passed = late.acquire(5 * ms, Hold::shared);
  EXPECT_FALSE(passed) << "it passed a living holder";
  reader.release();
  tried = true;
  may_release = true;
  writer.join();
  EXPECT_TRUE(late.acquire(1000 * ms, Hold::shared));
}

TEST_P(LockTest, NobodyDrawsATicketTwice) {
  Lines lines(Lock::bytes(2));
  Lock lock(memory_, lines.get(), 2, 0, 1, everybody_lives);
  std::uint64_t last = 0;
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(lock.acquire(60'000 * ms, Hold::shared));
    LockLine line;
    memory_.observe_line(&line, lines.get());
    EXPECT_GT(line.number, last);
    last = line.number;
    lock.release();
  }
}

TEST_P(LockTest, ADeadHolderIsPassedOver) {
  Lines lines(Lock::bytes(3));
  std::atomic<bool> holder_alive{true};
  auto alive = [&](std::uint64_t token) { return token != 7 || holder_alive; };
  Lock holder(memory_, lines.get(), 3, 1, 7, alive);
  ASSERT_TRUE(holder.acquire(1000 * ms));
  Lock other(memory_, lines.get(), 3, 2, 8, alive);
  EXPECT_EQ(other.acquire(40 * ms).error().code, ErrorCode::deadline);
  holder_alive = false;
  EXPECT_TRUE(other.acquire(30'000 * ms));
  other.release();
}

TEST_P(LockTest, SuccessorOfDeadHolderQueuesBehindRival) {
  Lines lines(Lock::bytes(2));
  auto alive = [](std::uint64_t token) { return token != 7; };
  Lock dead(memory_, lines.get(), 2, 0, 7, everybody_lives);
  ASSERT_TRUE(dead.acquire(1000 * ms));
  Lock rival(memory_, lines.get(), 2, 1, 8, alive);
  ASSERT_TRUE(rival.acquire(30'000 * ms));
  Lock successor(memory_, lines.get(), 2, 0, 9, alive);
  successor.repair();
  EXPECT_FALSE(successor.acquire(30 * ms));
  rival.release();
  EXPECT_TRUE(successor.acquire(1000 * ms));
}

TEST_P(LockTest, DeclaredDeadWaiterDoesNotAcquire) {
  Lines lines(Lock::bytes(2));
  Lock late(memory_, lines.get(), 2, 0, 7, [](std::uint64_t token) { return token != 7; });
  const auto acquired = late.acquire(1000 * ms);
  ASSERT_FALSE(acquired);
  EXPECT_EQ(acquired.error().code, ErrorCode::peer_dead);
  Lock other(memory_, lines.get(), 2, 1, 8, everybody_lives);
  EXPECT_TRUE(other.acquire(1000 * ms)) << "the first participant left its number behind";
}

TEST_P(LockTest, DeadlineNamesHolderAndLeavesNothing) {
  Lines lines(Lock::bytes(3));
  Lock holder(memory_, lines.get(), 3, 2, 0xabc, everybody_lives);
  ASSERT_TRUE(holder.acquire(1000 * ms));
  Lock late(memory_, lines.get(), 3, 0, 0xdef, everybody_lives);
  auto acquired = late.acquire(5 * ms);
  ASSERT_FALSE(acquired);
  EXPECT_THAT(acquired.error().message, HasSubstr("participant 2 (token 0xabc)"));
  holder.release();
  // If the second had left its number, the third would wait for it.
  Lock third(memory_, lines.get(), 3, 1, 0x111, everybody_lives);
  EXPECT_TRUE(third.acquire(1000 * ms));
}

/// Leaves a line as a writer does that was killed in the middle of a publish.
void tear(const coherence::Memory& memory, void* line, std::uint64_t token) {
  const std::uint64_t words[8] = {token, 1, 0, 0, 0, 0, 0, 0xbad5ea1};
  memory.publish_line(line, words);
  memory.store_fence();
}

TEST_P(LockTest, SkipsTornLineOfDead) {
  Lines lines(Lock::bytes(2));
  tear(memory_, lines.line(0), 7);
  Lock lock(memory_, lines.get(), 2, 1, 8, [](std::uint64_t token) { return token != 7; });
  EXPECT_TRUE(lock.acquire(30'000 * ms));
}

TEST_P(LockTest, WaitsForTornLineOfLiving) {
  Lines lines(Lock::bytes(2));
  tear(memory_, lines.line(0), 7);
  Lock lock(memory_, lines.get(), 2, 1, 8, everybody_lives);
  EXPECT_EQ(lock.acquire(30 * ms).error().code, ErrorCode::deadline);
  Lock owner(memory_, lines.get(), 2, 0, 7, everybody_lives);
  owner.repair();
  EXPECT_TRUE(lock.acquire(1000 * ms));
}

TEST_P(LockTest, ManyParticipantsOfWhichFewTakePart) {
  constexpr std::uint32_t count = 200;
  Lines lines(Lock::bytes(count));
  Lock last(memory_, lines.get(), count, count - 1, 5, everybody_lives);
  Lock first(memory_, lines.get(), count, 0, 6, everybody_lives);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(last.acquire(1000 * ms));
    EXPECT_FALSE(first.acquire(1));
    last.release();
    ASSERT_TRUE(first.acquire(1000 * ms));
    first.release();
  }
}

}  // namespace
}  // namespace penstock::sync::lock_test
