// SIGKILL between the stores of attaching, detaching, reaping and the pool's lock.
#include "crash_test_base.hpp"
#include "sync/sync.hpp"

namespace penstock::crash {
namespace {

using testing::HasSubstr;

class PoolCrash : public CrashTest {
 protected:
  /// Checks that another process, a process on another node, and the pool's lock all work.
  void expect_all_works() {
    const Attached one = attach(spec_), two = attach(spec_, {.emulated_node = 1});
    for (const Attached* here : {&one, &two}) {
      EXPECT_TRUE(here->pool->lock());
      const auto object = here->arena->create("probe", 5000);
      ASSERT_TRUE(object) << object.error().message;
      EXPECT_TRUE(here->arena->destroy(*object));
    }
  }
};

TEST_F(PoolCrash, InAttaching) {
  create();
  survive_everywhere(
      "attach", 100,
      [this](const auto& armed) {
        armed();
        attach(spec_).detach();
      },
      [this] { expect_all_works(); });
}

TEST_F(PoolCrash, InDetaching) {
  create();
  survive_everywhere(
      "detach", 100,
      [this](const auto& armed) {
        Attached here = attach(spec_);
        if (!here.arena->create("mine", 100, {.lifetime = arena::Lifetime::process})) {
          throw std::runtime_error("not created");
        }
        armed();
        here.detach();
      },
      [this] { expect_all_works(); });
}

TEST_F(PoolCrash, InReapingTheDead) {
  create();
  survive_everywhere(
      "reap", 100,
      [this](const auto& armed) {
        const Attached here = attach(spec_);
        pool::Child prey([this](const pool::Child::Report& report) {
          const Attached own = attach(spec_);
          for (const char* name : {"a", "b", "c"}) {
            if (!own.arena->create(name, 3000, {.lifetime = arena::Lifetime::process})) return 1;
          }
          report(1);
          pool::sleep_until_killed();
        });
        prey.next_report();
        prey.kill(SIGKILL);
        prey.wait();
        armed();
        if (!here.arena->collect()) throw std::runtime_error("the dead were not collected");
      },
      [this] { expect_all_works(); });
}

TEST_F(PoolCrash, InTheLockAndHoldingIt) {
  create();
  const Attached other_node = attach(spec_, {.emulated_node = 1});
  survive_everywhere(
      "lock", 100,
      [this](const auto& armed) {
        const Attached here = attach(spec_);
        armed();
        for (int round = 0; round < 3; ++round) {
          if (!here.pool->lock()) throw std::runtime_error("no lock");
        }
      },
      [&] {
        const auto locked = other_node.pool->lock();
        EXPECT_TRUE(locked) << locked.error().message;
      });
}

/// The first process of a node registers the node's number, renaming entry and table entry.
TEST_F(PoolCrash, InRegisteringANode) {
  const Victim newcomer = [this](const auto& armed) {
    armed();
    attach(spec_, {.emulated_node = 7}).detach();
  };
  create();
  const std::uint64_t total = run_victim(0, newcomer).steps;
  CrashStatistics statistics("register a node", total);
  for (std::uint64_t at = 1; at <= total; ++at) {
    SCOPED_TRACE(fmt::format("died at step {}", at));
    pool::TestFolder folder;  // a new pool, since a node registers only once in a pool
    spec_ = folder.file("pool");
    create();
    statistics.tried();
    EXPECT_TRUE(run_victim(at, newcomer).died);
    EXPECT_TRUE(attach(spec_, {.emulated_node = 7}).pool->lock());
    expect_all_works();
    EXPECT_EQ(collected(spec_).attached, 1u) << "only who looks";
    if (HasFailure()) return;
    statistics.survived();
  }
}

/// Other processes wait until the deadline for a stopped holder of the lock.
TEST_F(PoolCrash, StoppedInTheLockIsWaitedFor) {
  create();
  const Attached here = attach(spec_, {.emulated_node = 1});
  pool::Child child([this](const pool::Child::Report& report) {
    const Attached own = attach(spec_, {.rank = 5});
    const auto guard = own.pool->lock();
    report(guard ? 1 : 2);
    ::raise(SIGSTOP);
    return 0;
  });
  ASSERT_EQ(child.next_report(), 1u);
  child.wait_until_stopped();
  const auto early = here.pool->lock(200'000'000);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::deadline);
  child.kill(SIGCONT);
  EXPECT_EQ(child.wait(), 0);
  const auto locked = here.pool->lock();
  EXPECT_TRUE(locked) << locked.error().message;
}

/// SIGSTOP at each step between attach and detach. The others wait, then all processes continue.
TEST_F(PoolCrash, StoppedAnywhereGoesOnAfterwards) {
  create();
  const auto life = [this] {
    Attached here = attach(spec_);
    for (int round = 0; round < 2; ++round) {
      const auto object = here.arena->create("mine", 3000);
      if (!object || !here.arena->destroy(*object)) return 1;
    }
    here.detach();
    return 0;
  };
  const Attached other = attach(spec_, {.emulated_node = 1});
  const std::uint64_t total = run_victim(0, [&](const auto& armed) {
                                armed();
                                life();
                              }).steps;
  const Standing before = collected(spec_);
  CrashStatistics statistics("attach, create, destroy, detach (stopped)", total);
  for (const std::uint64_t at : sample(total, 25)) {
    SCOPED_TRACE(fmt::format("stopped at step {} of {}, TEST_SEED={}", at, total, seed()));
    statistics.tried();
    pool::Child child([&](const pool::Child::Report&) {
      arm(at, Deed::stop);
      return life();
    });
    const bool stopped = wait_until_stopped_or_ended(child);
    std::thread resume([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      child.kill(SIGCONT);
    });
    EXPECT_TRUE(at > 1 || stopped) << "nobody stopped";
    const auto mine = other.arena->create("other", 2000);
    EXPECT_TRUE(mine) << mine.error().message;
    resume.join();
    EXPECT_TRUE(mine && other.arena->destroy(*mine));
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(collected(spec_), before);
    if (HasFailure()) return;
    statistics.survived();
  }
}

}  // namespace
}  // namespace penstock::crash
