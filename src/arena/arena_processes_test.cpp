// Several processes on one arena, and what dead ones leave behind.
#include <signal.h>

#include <cstring>
#include <random>

#include "arena/test_pool.hpp"
#include "base/seed_in_tests.hpp"

namespace penstock::arena {
namespace {

constexpr int children = 4;

TEST(ArenaProcesses, FindEachOthersObjects) {
  const TestPool pool(16 << 20);
  const int status = run_child([&] {
    const Attached child = pool.attach();
    const auto made = child->create("letter", 4096);
    if (!made) return 1;
    const std::vector<char> text(4096, 'x');
    child.pool->memory().publish_bulk(made->data, text.data(), text.size());
    child.pool->memory().store_fence();
    return 0;
  });
  ASSERT_EQ(status, 0);
  const Attached parent = pool.attach();
  const auto found = parent->open("letter");
  ASSERT_TRUE(found) << found.error().message;
  std::vector<char> text(4096);
  parent.pool->memory().observe_bulk(text.data(), found->data, text.size());
  EXPECT_EQ(text, std::vector<char>(4096, 'x'));
}

TEST(ArenaProcesses, FormatOnceWhoeverComesFirst) {
  const TestPool pool(16 << 20);
  std::vector<pid_t> pids;
  for (int i = 0; i < children; ++i) {
    pids.push_back(start_child([&, i] {
      const Attached child = pool.attach();
      return child->create(fmt::format("of{}", i), 100) ? 0 : 1;
    }));
  }
  for (const auto pid : pids) EXPECT_EQ(wait_child(pid), 0);
  EXPECT_EQ(pool.attach()->list().size(), std::size_t{children});
}

TEST(ArenaProcesses, OneWinsEachName) {
  const TestPool pool(16 << 20);
  std::vector<pid_t> pids;
  constexpr int names = 20;
  for (int i = 0; i < children; ++i) {
    pids.push_back(start_child([&] {
      const Attached child = pool.attach();
      int won = 0;
      for (int n = 0; n < names; ++n) {
        const auto made = child->create(fmt::format("name{}", n), 64);
        if (!made && made.error().code != ErrorCode::already_exists) return 98;
        won += made.has_value();
      }
      return won;
    }));
  }
  int won = 0;
  for (const auto pid : pids) won += wait_child(pid);
  EXPECT_EQ(won, names);
  EXPECT_EQ(pool.attach()->list().size(), std::size_t{names});
}

TEST(ArenaProcesses, CreateAndDestroyTogether) {
  const TestPool pool(32 << 20);
  const Attached parent = pool.attach();
  const auto before = parent->stats();
  const std::uint64_t seed = base::seed_in_tests();
  fmt::print("seed {}\n", seed);
  std::vector<pid_t> pids;
  for (int c = 0; c < children; ++c) {
    pids.push_back(start_child([&, c] {
      const Attached child = pool.attach();
      std::mt19937_64 random(seed + static_cast<std::uint64_t>(c));
      std::vector<Object> mine;
      for (int i = 0; i < 300; ++i) {
        if (mine.size() < 20 && random() % 2 == 0) {
          const auto made = child->create(fmt::format("c{}.{}", c, i), 1 + random() % 30'000);
          if (!made) return 1;
          mine.push_back(*made);
        } else if (!mine.empty()) {
          std::swap(mine[random() % mine.size()], mine.back());
          if (!child->open(mine.back().name) || !child->destroy(mine.back())) return 2;
          mine.pop_back();
        }
      }
      for (const auto& object : mine) {
        if (!child->destroy(object)) return 3;
      }
      return 0;
    }));
  }
  for (const auto pid : pids) EXPECT_EQ(wait_child(pid), 0);
  EXPECT_TRUE(parent->list().empty());
  EXPECT_EQ(parent->stats().bytes_used, before.bytes_used);
  EXPECT_EQ(parent->stats().bytes_largest_free, before.bytes_largest_free);
}

TEST(ArenaProcesses, DetachingFreesWhatTheProcessOwned) {
  const TestPool pool(16 << 20);
  const Attached parent = pool.attach();
  const int status = run_child([&] {
    const Attached child = pool.attach();
    return child->create("mine", 64, {.lifetime = Lifetime::process}) &&
                   child->create("ours", 64, {.lifetime = Lifetime::pool})
               ? 0
               : 1;
  });
  ASSERT_EQ(status, 0);
  EXPECT_EQ(parent->open("mine").error().code, ErrorCode::not_found);
  EXPECT_TRUE(parent->open("ours"));
}

TEST(ArenaProcesses, PassSharedObjectsOnUntilNobodyIsLeft) {
  const TestPool pool(16 << 20);
  const Attached heir = pool.attach();
  std::vector<Object> shared;
  {
    const Attached maker = pool.attach();
    for (const char* name : {"words", "slots"})
      shared.push_back(*maker->create(name, 5000, {.lifetime = Lifetime::process}));
    const auto passed = maker->pass_on(shared, [&](std::uint64_t owner) {
      EXPECT_EQ(owner, maker.pool->token());
      return heir.pool->token();
    });
    ASSERT_TRUE(passed) << passed.error().message;
    EXPECT_FALSE(*passed) << "not destroyed";
  }
  EXPECT_EQ(heir->list().size(), 2u);
  EXPECT_EQ(heir->owner(shared[0]), heir.pool->token());
  const auto no_owner = [](std::uint64_t) { return std::uint64_t{0}; };
  EXPECT_TRUE(heir->pass_on(shared, no_owner).value());
  EXPECT_TRUE(heir->list().empty());
  EXPECT_EQ(heir->owner(shared[0]), 0u);
  EXPECT_FALSE(heir->pass_on(shared, no_owner).value()) << "they are gone";
}

TEST(ArenaProcesses, KeepObjectsPassedOnWhenTheirMakerDetaches) {
  const TestPool pool(16 << 20);
  const Attached heir = pool.attach();
  std::vector<Object> shared;
  {
    const Attached maker = pool.attach();
    shared.push_back(*maker->create("words", 5000, {.lifetime = Lifetime::process}));
    ASSERT_TRUE(heir->pass_on(shared, [&](std::uint64_t) { return heir.pool->token(); }));
  }
  EXPECT_TRUE(heir->stands(shared[0]));
  EXPECT_EQ(heir->owner(shared[0]), heir.pool->token());
}

/// Starts a child that makes objects, and kills it.
void kill_an_owner(const TestPool& pool) {
  const int status = run_child([&] {
    const Attached child = pool.attach();
    for (int i = 0; i < 5; ++i) {
      if (!child->create(fmt::format("passing{}", i), 5000, {.lifetime = Lifetime::process}))
        return 1;
    }
    if (!child->create("lasting", 5000)) return 2;
    raise(SIGKILL);
    return 3;
  });
  ASSERT_EQ(status, 128 + SIGKILL);
}

TEST(ArenaProcesses, CollectFreesWhatTheDeadOwned) {
  const TestPool pool(16 << 20);
  const Attached parent = pool.attach();
  kill_an_owner(pool);
  const auto dry = parent->collect(true);
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_EQ(dry->processes, 1u);
  EXPECT_EQ(dry->objects, 5u);
  EXPECT_EQ(parent->list().size(), 6u) << "a dry run frees nothing";
  const auto done = parent->collect();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->processes, 1u);
  EXPECT_EQ(done->objects, 5u);
  EXPECT_EQ(done->bytes, dry->bytes);
  const auto left = parent->list();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].name, "lasting");
  EXPECT_EQ(parent->collect()->objects, 0u);
}

TEST(ArenaProcesses, AttachingFreesWhatTheDeadOwned) {
  const TestPool pool(16 << 20);
  kill_an_owner(pool);
  const Attached next = pool.attach();
  EXPECT_EQ(next->list().size(), 1u);
}

TEST(ArenaProcesses, ReusesNameOfDeadOwner) {
  const TestPool pool(16 << 20);
  const Attached parent = pool.attach();
  kill_an_owner(pool);
  const auto made = parent->create("passing3", 64);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(parent->open("passing3")->bytes, 64u);
}

TEST(ArenaProcesses, SpaceOfTheDeadServesTheLiving) {
  const TestPool pool(16 << 20);
  const Attached parent = pool.attach();
  const auto all = parent->stats().bytes_largest_free;
  const int status = run_child([&] {
    const Attached child = pool.attach();
    if (!child->create("hog", all, {.lifetime = Lifetime::process, .zero = false})) return 1;
    raise(SIGKILL);
    return 2;
  });
  ASSERT_EQ(status, 128 + SIGKILL);
  const auto made = parent->create("next", all / 2);
  ASSERT_TRUE(made) << made.error().message;
}

TEST(ArenaProcesses, ForkedChildDoesNotFreeTheParentsObjects) {
  const TestPool pool(16 << 20);
  Attached parent = pool.attach();
  ASSERT_TRUE(parent->create("mine", 64, {.lifetime = Lifetime::process}));
  const int status = run_child([&] {
    parent.arena.reset();
    return 0;
  });
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(parent->open("mine"));
}

}  // namespace
}  // namespace penstock::arena
