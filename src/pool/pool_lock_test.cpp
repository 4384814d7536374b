#include <atomic>
#include <thread>

#include "base/environment_guard.hpp"
#include "pool/layout.hpp"
#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

using testing::HasSubstr;

class PoolLockTest : public PoolTest, public testing::WithParamInterface<coherence::Mode> {
 protected:
  void SetUp() override {
    CreateOptions options = create_options();
    options.mode = GetParam();
    auto created = pool::create(options);
    if (!created) GTEST_SKIP() << created.error().message;
  }
  static void add_one(const Pool& pool) {
    void* counter = pool.at(pool.info().arena_offset, 8);
    pool.memory().publish_word(counter, pool.memory().observe_word(counter) + 1);
    pool.memory().store_fence();
  }
  static std::uint64_t count(const Pool& pool) {
    return pool.memory().observe_word(pool.at(pool.info().arena_offset, 8));
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, PoolLockTest,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& mode) { return coherence::mode_name(mode.param); });

TEST_P(PoolLockTest, ExcludesProcessesOfSeveralNodes) {
  constexpr std::uint64_t rounds = 100;
  std::vector<std::unique_ptr<Child>> children;
  for (std::uint32_t i = 0; i < 4; ++i) {
    children.push_back(std::make_unique<Child>([this, i](const Child::Report&) {
      auto pool = attach({.emulated_node = i / 2});
      if (!pool) return 2;
      for (std::uint64_t round = 0; round < rounds; ++round) {
        auto guard = pool->lock();
        if (!guard) return 3;
        add_one(*pool);
      }
      return 0;
    }));
  }
  for (auto& child : children) EXPECT_EQ(child->wait(), 0);
  EXPECT_EQ(count(*attach()), 4 * rounds);
}

TEST_P(PoolLockTest, ExcludesThreadsAndAttachments) {
  constexpr std::uint64_t rounds = 50;
  auto first = attach(), second = attach();
  std::atomic<std::uint64_t> failures{0};
  auto work = [&](Pool& pool) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      auto guard = pool.lock();
      if (!guard) {
        ++failures;
        return;
      }
      add_one(pool);
    }
  };
  std::vector<std::thread> threads;
  for (Pool* pool : {first.get(), first.get(), second.get()}) {
    threads.emplace_back([&work, pool] { work(*pool); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(count(*first), 3 * rounds);
}

TEST_P(PoolLockTest, RecoversLockOfKilledHolder) {
  auto pool = attach();
  Child child([this](const Child::Report& report) {
    auto holder = attach();
    if (!holder) return 2;
    auto guard = holder->lock();
    report(1);
    sleep_until_killed();
  });
  ASSERT_EQ(child.next_report(), 1u);
  EXPECT_EQ(pool->lock(30'000'000).error().code, ErrorCode::deadline);
  child.kill(SIGKILL);
  auto locked = pool->lock();
  EXPECT_TRUE(locked) << locked.error().message;
}

TEST_P(PoolLockTest, KillsAtAnyMomentLeavePoolUsable) {
  auto pool = attach();
  for (int round = 0; round < 20; ++round) {
    Child child([this](const Child::Report& report) {
      report(1);
      for (;;) {
        auto other = attach();
        if (!other) return 2;
        for (int i = 0; i < 3; ++i) {
          if (!other->lock()) return 3;
        }
      }
    });
    ASSERT_EQ(child.next_report(), 1u);
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 711 * round));
    child.kill(SIGKILL);
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
    auto guard = pool->lock();
    ASSERT_TRUE(guard) << guard.error().message;
  }
  ASSERT_TRUE(pool->reclaim().reap({}));
  EXPECT_TRUE(attach());
  EXPECT_EQ(pool->members().local_processes(), 1u);
}

/// Overwrites the lines of an idle node and of nodes that never existed.
TEST_P(PoolLockTest, OverwrittenLinesBlockNobody) {
  const base::EnvironmentGuard lease("PENSTOCK_LEASE_MS", "800");
  Child idle([this](const Child::Report& report) {
    auto pool = attach({.emulated_node = 1});
    if (!pool || !pool->lock()) return 2;
    report(1);
    sleep_until_killed();
  });
  ASSERT_EQ(idle.next_report(), 1u);
  auto pool = attach({.emulated_node = 0});
  const std::uint64_t nodes = pool->info().max_nodes;
  const auto& superblock = *reinterpret_cast<const device::Superblock*>(pool->base());
  for (std::uint64_t node = 0; node < nodes; ++node) {
    void* checksum = pool->at(superblock.lock_offset + 64 * node + 56, 8);
    pool->memory().publish_word(checksum, 12345);
    pool->memory().store_fence();
  }
  auto guard = pool->lock(20'000'000'000);
  EXPECT_TRUE(guard) << guard.error().message;
}

TEST_P(PoolLockTest, WaitForThreadHasDeadline) {
  auto pool = attach();
  auto guard = pool->lock();
  ASSERT_TRUE(guard);
  auto second = pool->lock(5'000'000);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::deadline);
  EXPECT_THAT(second.error().message, HasSubstr("another thread"));
}

}  // namespace
}  // namespace penstock::pool
