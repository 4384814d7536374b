// Groups of attachments to one pool. Their caches are coherent here; sim/tests/window_test.cpp runs
// the same code without coherence.
#include "group/group.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "group/barrier.hpp"
#include "pool/test_pool.hpp"

namespace penstock::group {
namespace {

using testing::HasSubstr;

class GroupTest : public pool::PoolTest {
 protected:
  GroupTest() {
    create();
    pool_ = attach();
  }
  /// Options of a group of this process, rank 0, and another, rank 1.
  Options with(std::uint64_t other) const {
    return {.tokens = {pool_->token(), other}, .self = 0, .noun = "choir", .idle = {}};
  }
  static const std::function<void()>& nothing() {
    static const std::function<void()> look = [] {};
    return look;
  }

  std::unique_ptr<pool::Pool> pool_;
};

TEST_F(GroupTest, RanksAreKnownByTheirPlace) {
  const auto other = attach({.emulated_node = 1});
  const Group group(*pool_, with(other->token()));
  EXPECT_EQ(group.ranks(), 2u);
  EXPECT_EQ(group.token(1), other->token());
  EXPECT_EQ(group.others(), Missing{1});
  EXPECT_TRUE(group.check_rank(1));
  const auto third = group.check_rank(2);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(third.error().message, "rank 2 of a choir of 2 ranks");
  EXPECT_THAT(group.name(1), testing::StartsWith("rank 1 of the choir, "));
}

TEST_F(GroupTest, NamesAwaitedProcessWithoutRank) {
  const auto other = attach({.emulated_node = 1});
  Group group(*pool_, with(other->token()));
  EXPECT_EQ(group.awaited({1}), "1 of 2 ranks: " + group.name(1));
  EXPECT_EQ(group.awaited({0}), "1 of 2 ranks: " + group.name(0));  // another thread of this rank
  const auto conductor = attach({.emulated_node = 1});
  group.set_stand_in(conductor->token(), "the conductor");
  const std::string name = "the conductor, " + pool_->describe(conductor->token());
  EXPECT_EQ(group.awaited({0}), name);
  EXPECT_EQ(group.names({0}), name);
  EXPECT_EQ(group.waits_for("singing", {0}), "singing: waits for " + name);
  EXPECT_EQ(group.awaited({0, 1}), "2 of 2 ranks: " + group.name(0) + "; " + group.name(1));
}

TEST_F(GroupTest, CachesAreApartOnAnotherNodeOnly) {
  const auto here = attach(), there = attach({.emulated_node = 1});
  const Group near(*pool_, with(here->token())), far(*pool_, with(there->token()));
  EXPECT_FALSE(near.any_apart());
  EXPECT_TRUE(far.apart(1));
  EXPECT_FALSE(far.apart(0));
  EXPECT_TRUE(far.any_apart());
}

TEST_F(GroupTest, WaitLooksAndIdlesUntilAllArrive) {
  const auto other = attach();
  int looks = 0, idle = 0, served = 0;
  Options options = with(other->token());
  options.idle = [&] { ++idle; };
  Group group(*pool_, options);
  group.serve_by([&] { ++served; });
  Missing missing{1};
  const auto look = [&] {
    if (++looks == 33) missing.clear();
  };
  ASSERT_TRUE(group.wait("a song", missing, look));
  EXPECT_EQ(looks, 33);
  EXPECT_EQ(idle, 32);
  EXPECT_EQ(served, 4);
}

TEST_F(GroupTest, AWaitForTheDeadNamesThem) {
  pool::Child child = attached_child();
  const std::uint64_t token = child.next_report();
  Group group(*pool_, with(token));
  EXPECT_TRUE(group.check_alive(1, "a song"));
  child.kill(SIGKILL);
  child.wait();
  Missing missing{1};
  const auto waited = group.wait("a song", missing, nothing());
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::peer_dead);
  EXPECT_THAT(waited.error().message, HasSubstr("a song: rank 1 of the choir, "));
  EXPECT_THAT(waited.error().message, HasSubstr("has died"));
  EXPECT_FALSE(group.check_alive_now(1, "a song"));
  std::this_thread::sleep_for(std::chrono::milliseconds(25));  // the group checks every 20 ms
  EXPECT_FALSE(group.check_alive(1, "a song"));
}

TEST_F(GroupTest, WhatTheDeadDidLastCounts) {
  pool::Child child = attached_child();
  Group group(*pool_, with(child.next_report()));
  child.kill(SIGKILL);
  child.wait();
  Missing missing{1};
  int looks = 0;
  const auto look = [&] {
    if (++looks > 1 && !group.alive(1))
      missing.clear();  // its death is noticed only after it has
                        // died
  };
  EXPECT_TRUE(group.wait("a song", missing, look));
}

TEST_F(GroupTest, ADeathOfOneExplainsThatAnotherLeft) {
  pool::Child dead = attached_child();
  const std::uint64_t token = dead.next_report();
  auto leaves = attach();
  Options options = with(leaves->token());
  options.tokens.push_back(token);
  Group group(*pool_, options);
  dead.kill(SIGKILL);
  dead.wait();
  leaves.reset();
  Missing missing{1};
  const auto waited = group.wait("a song", missing, nothing());
  ASSERT_FALSE(waited);
  EXPECT_THAT(waited.error().message, HasSubstr("rank 2 of the choir"));
  EXPECT_THAT(waited.error().message, HasSubstr("has died, and rank 1 has left"));
}

TEST_F(GroupTest, TurnWaitsForThreadInPlace) {
  const auto other = attach();
  bool taken = true;
  int idle = 0;
  Options options = with(other->token());
  options.idle = [&] {
    if (++idle == 10) taken = false;
  };
  Group group(*pool_, options);
  {
    const auto turn = group.turn("a song", taken);
    ASSERT_TRUE(turn);
    EXPECT_EQ(idle, 10);
    EXPECT_TRUE(taken);
  }
  EXPECT_FALSE(taken);
}

class GroupBarrierTest : public GroupTest {
 protected:
  static constexpr std::uint32_t ranks = 3;
  GroupBarrierTest() {
    lines_ = pool_->info().arena_offset;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      pools_.push_back(attach({.emulated_node = rank}));
      tokens_.push_back(pools_.back()->token());
    }
  }
  Options options_of(std::uint32_t rank) const {
    return {.tokens = tokens_, .self = rank, .idle = {}};
  }
  Barrier::LineOf lines_at(std::uint32_t rank) const {
    std::byte* const first = pools_[rank]->base() + lines_;
    return [first](std::uint32_t of) { return first + Barrier::bytes_of_rank * of; };
  }

  std::uint64_t lines_ = 0;
  std::vector<std::unique_ptr<pool::Pool>> pools_;
  std::vector<std::uint64_t> tokens_;
};

TEST_F(GroupBarrierTest, NobodyGoesOnBeforeAllHaveCome) {
  constexpr int rounds = 200;
  std::array<std::atomic<int>, ranks> entered{};
  std::atomic<int> early{0};
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Group group(*pools_[rank], options_of(rank));
      Barrier barrier(group, lines_at(rank));
      for (int round = 1; round <= rounds; ++round) {
        entered[rank] = round;
        ASSERT_TRUE(barrier.meet("a song"));
        for (const auto& other : entered) early += other < round;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(early, 0);
}

TEST_F(GroupBarrierTest, ArrivingDoesNotWait) {
  Group group(*pools_[0], options_of(0));
  Barrier barrier(group, lines_at(0));
  barrier.arrive();
  pools_[2].reset();
  const auto met = barrier.await_others("a song");
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, ErrorCode::peer_dead);
  EXPECT_THAT(met.error().message, HasSubstr("rank 2 of the group"));
}

}  // namespace
}  // namespace penstock::group
