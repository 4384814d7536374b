// Processes of different jobs that share memory, Reclaim::shares_with().
#include <array>
#include <barrier>
#include <deque>
#include <set>
#include <thread>
#include <vector>

#include "pool/test_foreign.hpp"

namespace penstock::pool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SharingTest : public PoolTest {
 protected:
  void SetUp() override { create(); }

  /// The token of a killed process.
  std::uint64_t dead() const {
    const Child child = attached_child();
    return child.next_report();
  }
};

TEST_F(SharingTest, KeepsObjectsOfDeadPeerOfAnotherJob) {
  for (const bool announced_by_survivor : {true, false}) {
    auto stranger = attach({.job = "other"});
    auto survivor = attach({.job = "one"});
    Child killed([&](const Child::Report& report) -> int {
      auto pool = attach({.job = announced_by_survivor ? "" : "two"});
      if (!announced_by_survivor) (void)pool->reclaim().shares_with(std::array{survivor->token()});
      report(pool->token());
      sleep_until_killed();
    });
    const std::uint64_t dies = killed.next_report();
    if (announced_by_survivor) {
      ASSERT_TRUE(survivor->reclaim().shares_with(std::array{dies}));
    }
    killed.kill(SIGKILL);
    killed.wait();
    EXPECT_FALSE(stranger->alive(dies));
    EXPECT_EQ(stranger->reclaim().reap([](const auto&) { FAIL(); }).value(), 0u)
        << announced_by_survivor;
    {
      const auto guard = stranger->lock();
      EXPECT_FALSE(stranger->reclaim().may_reclaim(dies));
    }
    survivor.reset();
    std::set<std::uint64_t> dead;
    EXPECT_EQ(stranger->reclaim().reap([&](const auto& tokens) { dead = tokens; }).value(), 1u);
    EXPECT_THAT(dead, ElementsAre(dies));
  }
}

/// As threads that each make a communicator: of some peers both learn, of others one.
TEST_F(SharingTest, KeepsPeersThatTwoThreadsAnnounce) {
  constexpr std::size_t peers = 6, threads = 2;
  auto stranger = attach({.job = "other"});
  auto survivor = attach({.job = "one"});
  std::deque<Child> children;
  std::vector<std::uint64_t> tokens;
  for (std::size_t i = 0; i < peers; ++i) {
    children.emplace_back([&](const Child::Report& report) -> int {
      const auto pool = attach({.job = fmt::format("peer {}", i)});
      report(pool->token());
      sleep_until_killed();
    });
    tokens.push_back(children.back().next_report());
  }
  std::barrier<> all(threads);
  const auto announce = [&](std::size_t own) {
    for (std::size_t i = 0; i < peers; ++i) {
      all.arrive_and_wait();
      if (i % 3 == own) continue;
      EXPECT_TRUE(survivor->reclaim().shares_with(std::array{tokens[i]}));
    }
  };
  std::thread other(announce, 1);
  announce(0);
  other.join();
  for (Child& child : children) {
    child.kill(SIGKILL);
    child.wait();
  }
  EXPECT_EQ(stranger->reclaim().reap([](const auto&) { FAIL(); }).value(), 0u);
  survivor.reset();
  EXPECT_EQ(stranger->reclaim().reap([](const auto&) {}).value(), peers);
}

TEST_F(SharingTest, RefusesToShareWithAKilledProcess) {
  auto pool = attach({.job = "one"});
  const std::array gone{dead()};
  const auto is_refused = [&](Pool& by) {
    const auto refused = by.reclaim().shares_with(gone);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::not_found);
    EXPECT_THAT(refused.error().message, HasSubstr("has died, and its memory may have been freed"));
  };
  is_refused(*pool);
  EXPECT_EQ(pool->reclaim().reap([](const auto&) {}).value(), 1u);
  is_refused(*pool);
  const std::array left{attach({.job = "two"})->token()};
  EXPECT_TRUE(pool->reclaim().shares_with(left)) << "it has detached in order, and left nothing";
  const std::array<std::uint64_t, 3> none{0, pool->token(), ~std::uint64_t{0}};
  EXPECT_TRUE(pool->reclaim().shares_with(none)) << "no other process";
}

}  // namespace
}  // namespace penstock::pool
