// Children forked by an attached process: attachment, locks and exit belong to the parent.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <optional>

#include "base/environment_guard.hpp"
#include "pool/exit_log.hpp"
#include "pool/test_pool.hpp"

namespace penstock::pool {
namespace {

class ForkTest : public PoolTest {
 protected:
  ForkTest() { create(); }

  /// A process that attaches, calls `first`, forks a child that lives until it is released, and is
  /// killed.
  std::unique_ptr<Child> killed_with_child(const std::function<void(Pool&)>& first) {
    EXPECT_EQ(::pipe2(hold_, O_CLOEXEC), 0);
    auto parent = std::make_unique<Child>([&](const Child::Report& report) {
      auto pool = attach();
      if (!pool) return 2;
      first(*pool);
      if (::fork() == 0) {
        ::close(hold_[1]);
        report(1);
        char nothing;
        return static_cast<int>(::read(hold_[0], &nothing, 1));
      }
      sleep_until_killed();
    });
    ::close(hold_[0]);
    EXPECT_EQ(parent->next_report(), 1u);
    parent->kill(SIGKILL);
    parent->wait();
    return parent;
  }
  void release_child() { ::close(hold_[1]); }

  int hold_[2] = {-1, -1};
};

TEST_F(ForkTest, ChildCannotUseParentsAttachment) {
  auto pool = attach();
  ASSERT_NE(pool, nullptr);
  pool->publish_activity("at work");
  EXPECT_TRUE(pool->attached_here());
  Child child([&](const Child::Report&) {
    if (pool->attached_here()) return 1;
    const auto guard = pool->lock();
    if (guard || guard.error().message.find("attach again") == std::string::npos) return 2;
    pool->publish_activity("in a child");
    pool.reset();
    auto own = attach();
    return own != nullptr && own->attached_here() && own->lock() ? 7 : 3;
  });
  EXPECT_EQ(child.wait(), 7);
  EXPECT_TRUE(pool->alive(pool->token()));
  EXPECT_TRUE(pool->lock());
  ASSERT_EQ(pool->members().processes().size(), 2u);
  EXPECT_EQ(pool->members().processes().front().activity, "at work");
}

TEST_F(ForkTest, ChildForkedUnderLockReleasesNothing) {
  auto pool = attach(), rival = attach();
  ASSERT_TRUE(pool && rival);
  std::optional<Pool::Guard> guard;
  guard.emplace(std::move(*pool->lock()));
  Child child([&](const Child::Report&) {
    guard.reset();
    return 7;
  });
  EXPECT_EQ(child.wait(), 7);
  const auto taken = rival->lock(10'000'000);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::deadline);
  guard.reset();
  EXPECT_TRUE(rival->lock());
}

TEST_F(ForkTest, FreesLockOfDeadHolderWithLivingChild) {
  std::optional<Pool::Guard> held;
  const auto killed = killed_with_child([&held](Pool& pool) {
    auto guard = pool.lock();
    if (guard) held.emplace(std::move(*guard));
  });
  auto pool = attach();
  ASSERT_NE(pool, nullptr);
  EXPECT_TRUE(pool->lock());
  release_child();
}

TEST_F(ForkTest, ReportsEndWithLivingChild) {
  const base::EnvironmentGuard folder("PENSTOCK_EXIT_LOG", folder_.path().c_str());
  const auto looking = attach({.observer = true});
  ASSERT_NE(looking, nullptr);
  auto exit_log = ExitLog::watch(folder_.path(), looking->info().id);
  ASSERT_TRUE(exit_log) << exit_log.error().message;
  const auto killed = killed_with_child([](Pool&) {});
  const auto events = exit_log->events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events.back().kind, ExitLog::Event::Kind::ended);
  release_child();
}

}  // namespace
}  // namespace penstock::pool
