#include "arena/arena.hpp"

#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "arena/region.hpp"
#include "arena/test_pool.hpp"
#include "base/seed_in_tests.hpp"

namespace penstock::arena {
namespace {

class ArenaTest : public ::testing::Test {
 protected:
  std::vector<std::byte> contents(const Object& object) {
    std::vector<std::byte> bytes(object.bytes);
    here_.pool->memory().observe_bulk(bytes.data(), object.data, bytes.size());
    return bytes;
  }

  TestPool pool_{32 << 20};
  Attached here_ = pool_.attach();
};

TEST_F(ArenaTest, CreatesOpensDestroys) {
  const auto made = here_->create("matrix", 1000);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->name, "matrix");
  EXPECT_EQ(made->bytes, 1000u);
  EXPECT_EQ(made->offset % 64, 0u);
  EXPECT_EQ(made->data, here_.pool->at(made->offset, made->bytes));
  EXPECT_EQ(contents(*made), std::vector<std::byte>(1000));
  const auto opened = here_->open("matrix");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->offset, made->offset);
  EXPECT_EQ(opened->generation, made->generation);
  ASSERT_TRUE(here_->destroy(*opened));
  EXPECT_EQ(here_->open("matrix").error().code, ErrorCode::not_found);
  EXPECT_EQ(here_->destroy(*made).error().code, ErrorCode::not_found);
}

TEST_F(ArenaTest, NewObjectsAreZeroWhereOldOnesWere) {
  const auto first = *here_->create("a", 5000);
  const std::vector<std::byte> ones(5000, std::byte{0xff});
  here_.pool->memory().publish_bulk(first.data, ones.data(), ones.size());
  here_.pool->memory().store_fence();
  ASSERT_TRUE(here_->destroy(first));
  const auto second = *here_->create("b", 5000);
  EXPECT_EQ(second.offset, first.offset) << "the space was used again";
  EXPECT_EQ(contents(second), std::vector<std::byte>(5000));
}

TEST_F(ArenaTest, DestroyOfAnEarlierGenerationSparesTheLater) {
  const auto first = *here_->create("name", 100);
  ASSERT_TRUE(here_->destroy(first));
  const auto second = *here_->create("name", 100);
  EXPECT_GT(second.generation, first.generation);
  EXPECT_EQ(here_->destroy(first).error().code, ErrorCode::not_found);
  EXPECT_TRUE(here_->open("name"));
}

TEST_F(ArenaTest, RefusesBadRequests) {
  EXPECT_EQ(here_->create("", 1).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(here_->create(std::string(64, 'n'), 1).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(here_->create(std::string_view("a\0b", 3), 1).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(here_->create("x", 0).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(here_->create("x", 1, {.alignment = 96}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(here_->create("x", 1, {.alignment = 4 << 20}).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(here_->open("").error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(here_->create(std::string(63, 'n'), 1));
  EXPECT_EQ(here_->destroy({.name = "x", .slot = ~0u}).error().code, ErrorCode::not_found);
}

TEST_F(ArenaTest, RefusalOfSpaceNamesNeedAndLargestFree) {
  const auto refused = here_->create("huge", 1ull << 40);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_space);
  for (const char* part :
       {"huge", "1 TiB", "largest free", "penstock pool gc", "penstock pool create"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(here_->create("overflow", ~0ull).error().code, ErrorCode::no_space);
  EXPECT_TRUE(here_->create("modest", 1 << 20));
}

TEST_F(ArenaTest, OpensExistingObjectOnlyIfAskedAndEqual) {
  const auto made = *here_->create("shared", 256);
  EXPECT_EQ(here_->create("shared", 256).error().code, ErrorCode::already_exists);
  const auto again = here_->create("shared", 256, {.open_existing = true});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->generation, made.generation);
  EXPECT_EQ(here_->create("shared", 512, {.open_existing = true}).error().code,
            ErrorCode::already_exists);
}

TEST_F(ArenaTest, AlignsUpToTwoMebibytes) {
  for (std::uint64_t alignment = 1; alignment <= 2 << 20; alignment *= 2) {
    const auto object =
        here_->create(fmt::format("aligned{}", alignment), 10, {.alignment = alignment});
    ASSERT_TRUE(object) << object.error().message;
    EXPECT_EQ(object->offset % alignment, 0u);
  }
}

TEST_F(ArenaTest, ListsAndCounts) {
  const auto empty = here_->stats();
  EXPECT_EQ(empty.objects, 0u);
  EXPECT_EQ(empty.bytes_used, 0u);
  EXPECT_GT(empty.slots, 100u);
  ASSERT_TRUE(here_->create("b", 1000));
  ASSERT_TRUE(here_->create("a", 2000));
  const auto objects = here_->list();
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0].name, "a");
  EXPECT_EQ(objects[0].bytes, 2000u);
  EXPECT_EQ(objects[1].name, "b");
  const auto stats = here_->stats();
  EXPECT_EQ(stats.objects, 2u);
  EXPECT_EQ(stats.bytes_used, 64u + 1024u + 64u + 2048u);
  EXPECT_EQ(stats.bytes_largest_free + 64, stats.bytes_total - stats.bytes_used);
}

TEST_F(ArenaTest, ObjectsOutliveAllAttachments) {
  const auto made = *here_->create("lasting", 100);
  ASSERT_TRUE(here_->create("passing", 100, {.lifetime = Lifetime::process}));
  here_.arena.reset();
  here_ = pool_.attach();
  EXPECT_EQ(here_->open("lasting")->generation, made.generation);
  EXPECT_EQ(here_->open("passing").error().code, ErrorCode::not_found);
}

TEST_F(ArenaTest, TenThousandCyclesLeaveNothing) {
  const auto before = here_->stats();
  for (int i = 0; i < 10'000; ++i) {
    const auto object = here_->create(fmt::format("cycle{}", i), 64 + i % 5000, {.zero = false});
    ASSERT_TRUE(object) << i << ": " << object.error().message;
    ASSERT_TRUE(here_->destroy(*object));
  }
  const auto after = here_->stats();
  EXPECT_EQ(after.bytes_used, before.bytes_used);
  EXPECT_EQ(after.bytes_largest_free, before.bytes_largest_free);
}

TEST_F(ArenaTest, TwoThousandObjectsLiveTogether) {
  const auto before = here_->stats();
  std::vector<Object> objects;
  for (int i = 0; i < 2'000; ++i) {
    auto object = here_->create(fmt::format("live{}", i), 1000);
    ASSERT_TRUE(object) << i << ": " << object.error().message;
    objects.push_back(*object);
  }
  EXPECT_EQ(here_->list().size(), 2'000u);
  std::shuffle(objects.begin(), objects.end(), std::mt19937(7));
  for (const auto& object : objects) {
    const auto found = here_->open(object.name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->offset, object.offset);
    ASSERT_TRUE(here_->destroy(object));
  }
  EXPECT_EQ(here_->stats().bytes_used, before.bytes_used);
  EXPECT_TRUE(here_->create("all", before.bytes_largest_free, {.zero = false}));
}

TEST_F(ArenaTest, FullTableSaysSo) {
  std::uint64_t made = 0;
  for (;; ++made) {
    const auto object = here_->create(fmt::format("tiny{}", made), 1);
    if (object) continue;
    EXPECT_EQ(object.error().code, ErrorCode::no_slots) << object.error().message;
    EXPECT_NE(object.error().message.find("penstock pool gc"), std::string::npos);
    break;
  }
  const auto slots = here_->stats().slots;
  EXPECT_GT(made, slots / 2) << "of " << slots;
  const auto objects = here_->list();
  ASSERT_EQ(objects.size(), made);
  for (const auto& object : objects) ASSERT_TRUE(here_->destroy(object));
  EXPECT_EQ(here_->stats().bytes_used, 0u);
}

TEST_F(ArenaTest, ThreadsShareOneArena) {
  std::vector<std::thread> threads;
  std::atomic<int> winners = 0, failures = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      if (here_->create("contended", 64)) ++winners;
      for (int i = 0; i < 200; ++i) {
        const auto object = here_->create(fmt::format("thread{}.{}", t, i), 100 + i);
        if (!object || !here_->open(object->name) || !here_->destroy(*object)) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(here_->list().size(), 1u);
}

/// Tries to take the lock through another attachment after each publish of `operation`.
int times_lock_was_free(const TestPool& pool, const std::function<void()>& operation) {
  const Attached other = pool.attach();
  int times = 0;
  after_publish_hook() = [&] { times += other.pool->lock(1'000'000).has_value(); };
  operation();
  after_publish_hook() = nullptr;
  return times;
}

TEST_F(ArenaTest, LockIsFreeWhileMuchIsZeroed) {
  EXPECT_EQ(times_lock_was_free(pool_, [&] { ASSERT_TRUE(here_->create("small", 1000)); }), 0);
  const auto used = here_->stats().bytes_used;
  Result<Object> large = tl::make_unexpected(Error{});
  EXPECT_EQ(times_lock_was_free(pool_, [&] { large = here_->create("large", 20 << 20); }), 1);
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_EQ(contents(*large), std::vector<std::byte>(20 << 20));
  EXPECT_EQ(here_->open("large")->generation, large->generation);
  EXPECT_EQ(here_->collect()->bytes, 0u);
  ASSERT_TRUE(here_->destroy(*large));
  EXPECT_EQ(here_->stats().bytes_used, used);
}

TEST_F(ArenaTest, FreesLargeObjectThatLosesItsName) {
  const Attached other = pool_.attach();
  bool raced = false;
  after_publish_hook() = [&] {
    if (raced || !other.pool->lock(1'000'000)) return;
    raced = true;  // it is being zeroed: others find the space taken and the name free
    EXPECT_EQ(other->collect()->bytes, 0u) << "an object that is being made is not lost space";
    EXPECT_TRUE(other->create("contended", 100));
  };
  const auto large = here_->create("contended", 20 << 20);
  after_publish_hook() = nullptr;
  EXPECT_TRUE(raced);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::already_exists);
  EXPECT_EQ(here_->stats().bytes_used, 64u + 128u);
}

TEST_F(ArenaTest, AgreesWithAMap) {
  const std::uint64_t seed = base::seed_in_tests();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  std::map<std::string, Object> model;
  const Attached there = pool_.attach();
  const auto before = here_->stats();
  for (int step = 0; step < 4'000; ++step) {
    const Arena& arena = random() % 2 == 0 ? *here_.arena : *there.arena;
    auto& actor = const_cast<Arena&>(arena);
    const auto name = fmt::format("object{}", random() % 300);
    const auto known = model.find(name);
    switch (random() % 4) {
      case 0:
      case 1: {
        const auto made =
            actor.create(name, 1 + random() % 20'000,
                         {.alignment = 64ull << (random() % 7), .zero = random() % 2 == 0});
        if (known != model.end()) {
          ASSERT_EQ(made.error().code, ErrorCode::already_exists);
        } else if (made) {
          for (const auto& [other, object] : model) {
            ASSERT_TRUE(object.offset + object.bytes <= made->offset ||
                        made->offset + made->bytes <= object.offset)
                << other << " overlaps " << name;
          }
          model[name] = *made;
        } else {
          ASSERT_EQ(made.error().code, ErrorCode::no_space) << made.error().message;
        }
        break;
      }
      case 2:
        ASSERT_EQ(actor.open(name).has_value(), known != model.end()) << name;
        break;
      default:
        if (known == model.end()) break;
        ASSERT_TRUE(actor.destroy(known->second)) << name;
        model.erase(known);
    }
  }
  const auto listed = here_->list();
  ASSERT_EQ(listed.size(), model.size());
  for (const auto& object : listed) {
    ASSERT_EQ(model.at(object.name).offset, object.offset);
    ASSERT_EQ(model.at(object.name).generation, object.generation);
    ASSERT_TRUE(here_->destroy(object));
  }
  EXPECT_EQ(here_->stats().bytes_used, before.bytes_used);
  EXPECT_EQ(here_->collect()->bytes, 0u);
}

class ArenaModes : public ::testing::TestWithParam<coherence::Mode> {};

TEST_P(ArenaModes, WorkAlike) {
  const TestPool pool(16 << 20, GetParam());
  const Attached here = pool.attach(), there = pool.attach();
  for (int i = 0; i < 50; ++i) {
    const auto made = here->create(fmt::format("o{}", i), 100 * (i + 1));
    ASSERT_TRUE(made) << made.error().message;
    const auto found = there->open(made->name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->offset, made->offset);
    if (i % 2 == 0) {
      ASSERT_TRUE(there->destroy(*found));
    }
  }
  EXPECT_EQ(there->list().size(), 25u);
}

INSTANTIATE_TEST_SUITE_P(All, ArenaModes,
                         ::testing::Values(coherence::Mode::hardware, coherence::Mode::software,
                                           coherence::Mode::uncached),
                         [](const auto& mode) { return coherence::mode_name(mode.param); });

TEST(ArenaParts, PlacesObjectOnRequestedPart) {
  const std::string name = fmt::format("shm:penstock-arena-parts-{}", getpid());
  const std::string spec = name + "-0," + name + "-1";
  ASSERT_TRUE(pool::create({.spec = spec, .bytes = 32 << 20}));
  {
    auto pool = *pool::Pool::attach({.spec = spec});
    auto arena = *Arena::open(*pool);
    const auto& striping = pool->info().striping;
    for (std::uint32_t i = 0; i < 6; ++i) {
      const auto made = arena->create(fmt::format("on {}", i), 500'000, {.part = i % 2});
      ASSERT_TRUE(made) << made.error().message;
      const auto stripe = striping.stripe_of(made->offset);
      EXPECT_EQ(stripe.part, i % 2);
      EXPECT_LE(made->offset + made->bytes, stripe.end);
    }
    const auto message = [&](std::uint64_t bytes, std::uint32_t part) {
      const auto made = arena->create("refused", bytes, {.part = part});
      return made ? "" : made.error().message;
    };
    EXPECT_EQ(message(1, 2),
              "object \"refused\" on part 2 of a pool of 2 parts, which count from 0");
    EXPECT_NE(message((2 << 20) + 1, 0).find("on one part of the pool, whose stripes have 2 MiB"),
              std::string::npos)
        << message((2 << 20) + 1, 0);
  }
  EXPECT_TRUE(pool::remove(spec));
}

/// `near` is a wish, not a condition: an object lies elsewhere if the part is full, or if the
/// object is longer than a stripe.
TEST(ArenaParts, PrefersRequestedPartIfPossible) {
  const std::string name = fmt::format("shm:penstock-arena-near-{}", getpid());
  const std::string spec = name + "-0," + name + "-1";
  ASSERT_TRUE(pool::create({.spec = spec, .bytes = 32 << 20}));
  {
    auto pool = *pool::Pool::attach({.spec = spec});
    auto arena = *Arena::open(*pool);
    const auto& striping = pool->info().striping;
    int there = 0, elsewhere = 0;
    for (int i = 0; i < 10; ++i) {
      const auto made = arena->create(fmt::format("near {}", i), 1 << 20, {.near = 1});
      ASSERT_TRUE(made) << made.error().message;
      const auto stripe = striping.stripe_of(made->offset);
      const bool is_there = stripe.part == 1 && made->offset + made->bytes <= stripe.end;
      EXPECT_FALSE(is_there && elsewhere != 0);
      ++(is_there ? there : elsewhere);
    }
    EXPECT_GE(there, 6);  // one in each stripe
    EXPECT_GT(elsewhere, 0);
    EXPECT_TRUE(arena->create("long", 5 << 19, {.near = 1}));
    EXPECT_TRUE(arena->create("modulo", 64, {.near = 1000}));
  }
  EXPECT_TRUE(pool::remove(spec));
}

/// Creates a large object while another process takes the lock, after the object has got its space,
/// and holds it until the creator has ended.
Result<Object> create_behind_a_held_lock(Arena& arena, pool::Pool& other, Arena& seen) {
  const std::uint64_t before = seen.stats().bytes_used;
  std::optional<Result<Object>> made;
  std::atomic<bool> ended = false;
  std::jthread creator([&] {
    made = arena.create("large", 256 << 20, {.timeout_ns = 10'000'000});
    ended = true;
  });
  while (seen.stats().bytes_used == before && !ended) std::this_thread::yield();
  {
    const auto held = other.lock();
    EXPECT_TRUE(held);
    for (int looks = 0; looks < 6000 && !ended; ++looks)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(ended) << "it waits for the holder";
  }
  creator.join();
  return *made;
}

/// The holder of the lock may be stopped while the object is being zeroed: its space is freed all
/// the same.
TEST(ArenaLimits, LimitAppliesToLargeObjectsToo) {
  const std::string spec = fmt::format("shm:penstock-arena-limit-{}", getpid());
  ASSERT_TRUE(pool::create({.spec = spec, .bytes = 512 << 20}));
  {
    auto pool = *pool::Pool::attach({.spec = spec}), other = *pool::Pool::attach({.spec = spec});
    auto arena = *Arena::open(*pool), seen = *Arena::open(*other);
    const std::uint64_t before = seen->stats().bytes_used;
    auto made = create_behind_a_held_lock(*arena, *other, *seen);
    for (int again = 0; again < 20 && made; ++again) {  // the lock was taken too late
      ASSERT_TRUE(arena->destroy(*made));
      made = create_behind_a_held_lock(*arena, *other, *seen);
    }
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::deadline);
    const auto next = arena->create("large", 64);
    ASSERT_TRUE(next) << next.error().message;
    ASSERT_TRUE(arena->destroy(*next));
    EXPECT_EQ(seen->stats().bytes_used, before);
  }
  EXPECT_TRUE(pool::remove(spec));
}

}  // namespace
}  // namespace penstock::arena
