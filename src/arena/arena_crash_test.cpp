// A process dies after each publish of each operation in turn. The next process finds each name
// whole or absent and, after collect(), has all space that no name refers to.
#include <set>

#include "arena/region.hpp"
#include "arena/test_pool.hpp"

namespace penstock::arena {
namespace {

constexpr int died_at_publish = 77;
constexpr int max_publishes = 200;

/// Runs `operation` in a process that dies after its `count`-th publish in the arena. Returns false
/// if the operation ended before that.
bool dies_at(const TestPool& pool, int count, const std::function<bool(Arena&)>& operation) {
  const int status = run_child([&] {
    const Attached child = pool.attach();
    int left = count;
    after_publish_hook() = [&left] {
      if (--left == 0) _exit(died_at_publish);
    };
    const bool done = operation(*child.arena);
    after_publish_hook() = nullptr;
    return done ? 0 : 1;
  });
  EXPECT_TRUE(status == 0 || status == died_at_publish) << "exit status " << status;
  return status == died_at_publish;
}

std::set<std::string> names_in(const Arena& arena) {
  std::set<std::string> names;
  for (const auto& object : arena.list()) names.insert(object.name);
  return names;
}

/// Lays out used and free extents of many kinds: b, d and f are free.
void make_neighbours(Arena& arena) {
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) {
    ASSERT_TRUE(arena.create(name, 3000));
  }
  for (const char* name : {"b", "d", "f"}) ASSERT_TRUE(arena.destroy(*arena.open(name)));
}

bool all_zero(const Attached& here, const Object& object) {
  std::vector<std::byte> bytes(object.bytes);
  here.pool->memory().observe_bulk(bytes.data(), object.data, bytes.size());
  return bytes == std::vector<std::byte>(object.bytes);
}

void expect_create_survives(std::uint64_t bytes, std::uint64_t alignment,
                            std::uint64_t pool_bytes = 16 << 20) {
  const TestPool pool(pool_bytes);
  const Attached here = pool.attach();
  make_neighbours(*here.arena);
  const auto names = names_in(*here.arena);
  const auto before = here->stats();
  int count = 1;
  for (bool died = true; died; ++count) {
    ASSERT_LT(count, max_publishes);
    died = dies_at(pool, count, [&](Arena& arena) {
      return arena.create("new", bytes, {.alignment = alignment}).has_value();
    });
    const Attached next = pool.attach();
    if (const auto found = next->open("new")) {
      EXPECT_EQ(found->bytes, bytes);
      EXPECT_EQ(found->offset % alignment, 0u);
      EXPECT_TRUE(all_zero(next, *found)) << "after publish " << count;
      ASSERT_TRUE(next->destroy(*found));
    } else {
      EXPECT_TRUE(died) << "it was created";
    }
    const auto collected = next->collect();
    ASSERT_TRUE(collected) << collected.error().message;
    EXPECT_EQ(names_in(*next.arena), names) << "after publish " << count;
    EXPECT_EQ(next->stats().bytes_used, before.bytes_used) << "after publish " << count;
  }
  EXPECT_GT(count, 5) << "the operation has several publishes";
  // All of the rest can still be allocated.
  EXPECT_TRUE(here->create("all", here->stats().bytes_largest_free));
}

TEST(ArenaCrash, InCreateThatSplits) {
  expect_create_survives(1000, 64);
}
TEST(ArenaCrash, InCreateWithPaddingInFront) {
  expect_create_survives(10'000, 64 << 10);
}
TEST(ArenaCrash, InCreateThatFillsItsExtent) {
  expect_create_survives(3000, 64);
}

TEST(ArenaCrash, InCreateThatZeroesWithoutTheLock) {
  expect_create_survives(20 << 20, 4096, 32 << 20);
}

TEST(ArenaCrash, InCreateThatJoinsFreeNeighbours) {
  const TestPool pool(16 << 20);
  int count = 1;
  for (bool died = true; died; ++count) {
    ASSERT_LT(count, max_publishes);
    const Attached here = pool.attach();
    // They are freed front to back, so that the free neighbours are still separate.
    std::vector<Object> row;
    for (int i = 0; i < 6; ++i) row.push_back(*here->create(fmt::format("row{}", i), 3000));
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(here->destroy(row[static_cast<std::size_t>(i)]));
    const auto before = here->stats();
    died =
        dies_at(pool, count, [](Arena& arena) { return arena.create("new", 14'000).has_value(); });
    if (const auto found = here->open("new")) {
      ASSERT_TRUE(here->destroy(*found));
    }
    ASSERT_TRUE(here->collect());
    EXPECT_EQ(here->stats().bytes_used, before.bytes_used) << "after publish " << count;
    ASSERT_TRUE(here->destroy(row[5]));
    EXPECT_EQ(here->stats().bytes_used, 0u);
  }
}

TEST(ArenaCrash, InDestroy) {
  for (const bool free_before : {false, true}) {
    for (const bool free_behind : {false, true}) {
      const TestPool pool(16 << 20);
      int count = 1;
      for (bool died = true; died; ++count) {
        ASSERT_LT(count, max_publishes);
        const Attached here = pool.attach();
        const auto before = here->create("before", 3000);
        const auto before_bytes = here->stats().bytes_used;
        ASSERT_TRUE(here->create("victim", 3000));
        const auto behind = here->create("behind", 3000);
        if (free_before) {
          ASSERT_TRUE(here->destroy(*before));
        }
        if (free_behind) {
          ASSERT_TRUE(here->destroy(*behind));
        }
        died = dies_at(pool, count, [](Arena& arena) {
          return arena.destroy(*arena.open("victim")).has_value();
        });
        if (const auto victim = here->open("victim")) {
          EXPECT_TRUE(died);
          ASSERT_TRUE(here->destroy(*victim));
        }
        ASSERT_TRUE(here->collect());
        EXPECT_EQ(here->stats().bytes_used,
                  before_bytes * ((free_before ? 0 : 1) + (free_behind ? 0 : 1)))
            << "after publish " << count;
        if (!free_before) {
          ASSERT_TRUE(here->destroy(*before));
        }
        if (!free_behind) {
          ASSERT_TRUE(here->destroy(*behind));
        }
        EXPECT_EQ(here->stats().bytes_used, 0u);
      }
    }
  }
}

TEST(ArenaCrash, InFormatting) {
  int count = 1;
  for (bool died = true; died; ++count) {
    ASSERT_LT(count, max_publishes);
    const TestPool pool(16 << 20);
    const int status = run_child([&] {
      int left = count;
      after_publish_hook() = [&left] {
        if (--left == 0) _exit(died_at_publish);
      };
      pool.attach();
      return 0;
    });
    ASSERT_TRUE(status == 0 || status == died_at_publish);
    died = status == died_at_publish;
    const Attached next = pool.attach();
    EXPECT_EQ(next->stats().bytes_used, 0u);
    ASSERT_TRUE(next->create("first", 1000));
    EXPECT_TRUE(pool.attach()->open("first"));
  }
  EXPECT_GT(count, 3);
}

TEST(ArenaCrash, InCollect) {
  const TestPool pool(16 << 20);
  int count = 1;
  for (bool died = true; died; ++count) {
    ASSERT_LT(count, max_publishes);
    const Attached here = pool.attach();
    ASSERT_TRUE(here->create("stays", 1000));
    const auto used = here->stats().bytes_used;
    const int status = run_child([&] {
      const Attached owner = pool.attach();
      for (int i = 0; i < 4; ++i) {
        if (!owner->create(fmt::format("o{}", i), 3000, {.lifetime = Lifetime::process})) return 1;
      }
      _exit(died_at_publish);
    });
    ASSERT_EQ(status, died_at_publish);
    died = run_child([&] {
             pool::AttachOptions options;
             options.spec = pool.spec();
             const auto mapped = *pool::Pool::attach(options);
             int left = count;
             after_publish_hook() = [&left] {
               if (--left == 0) _exit(died_at_publish);
             };
             const auto arena = *Arena::open(*mapped);
             const bool done = arena->collect().has_value();
             after_publish_hook() = nullptr;
             return done ? 0 : 1;
           }) == died_at_publish;
    const auto collected = here->collect();
    ASSERT_TRUE(collected) << collected.error().message;
    EXPECT_EQ(here->stats().bytes_used, used) << "after publish " << count;
    EXPECT_EQ(names_in(*here.arena), std::set<std::string>{"stays"});
    ASSERT_TRUE(here->destroy(*here->open("stays")));
  }
}

}  // namespace
}  // namespace penstock::arena
