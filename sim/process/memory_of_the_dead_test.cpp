// Real processes are killed after they have stored to their objects. Their dirty lines in the
// node's cache must never appear in later objects in the same space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <vector>

#include "arena/test_pool.hpp"

namespace penstock::arena {
namespace {

constexpr std::uint64_t pool_bytes = 16 << 20;
constexpr std::uint64_t bytes = 256 << 10;

class MemoryOfTheDead : public testing::TestWithParam<coherence::Mode> {
 protected:
  Attached attach(std::uint32_t node) const {
    pool::AttachOptions options;
    options.emulated_node = node;
    return pool_.attach(options);
  }
  /// Makes plain stores to its own memory, and is killed.
  void store_and_die(std::uint32_t node) const {
    const int status = run_child([&] {
      const Attached victim = attach(node);
      const auto made = victim->create("segment", bytes, {.lifetime = Lifetime::process});
      if (!made) return 1;
      std::memset(made->data, 0x11, bytes);
      return ::kill(::getpid(), SIGKILL);
    });
    ASSERT_EQ(status, 128 + SIGKILL);
  }
  static bool holds(const Attached& at, std::uint64_t offset, unsigned char value) {
    std::vector<unsigned char> got(bytes);
    at.pool->memory().observe_bulk(got.data(), at.pool->base() + offset, bytes);
    return got == std::vector<unsigned char>(bytes, value);
  }
  /// Takes all the space in objects of `bytes`, filled with 0x22.
  static std::vector<Object> fill(const Attached& at) {
    std::vector<Object> made;
    const std::vector<unsigned char> data(bytes, 0x22);
    for (int i = 0;; ++i) {
      const auto object = at->create(fmt::format("next{}", i), bytes, {.zero = false});
      if (!object) return made;
      at.pool->memory().publish_bulk(object->data, data.data(), bytes);
      at.pool->memory().full_fence();
      made.push_back(*object);
    }
  }
  bool simulated() const { return GetParam() == coherence::Mode::simulated; }

  TestPool pool_{pool_bytes, GetParam()};
};

TEST_P(MemoryOfTheDead, IsNobodysBeforeTheirNodeHasFlushed) {
  const std::uint64_t room = attach(1)->stats().bytes_largest_free;
  store_and_die(0);
  const Attached second = attach(1);
  const auto waiting = second->quarantine();
  if (simulated()) {  // otherwise emulated nodes share this host's caches
    EXPECT_GE(waiting.bytes, bytes);
    ASSERT_EQ(waiting.waits_for.size(), 1u);
    EXPECT_FALSE(waiting.waits_for[0].alive);
    EXPECT_FALSE(waiting.waits_for[0].host.empty());
    EXPECT_EQ(second->stats().bytes_quarantined, waiting.bytes);
  } else {
    EXPECT_TRUE(waiting.waits_for.empty());
  }
  const auto made = fill(second);
  ASSERT_FALSE(made.empty());
  const auto refused = second->create("more", bytes, {.zero = false});
  ASSERT_FALSE(refused);
  if (simulated()) {
    EXPECT_THAT(refused.error().message, testing::HasSubstr("in quarantine until"));
  }

  const Attached first = attach(0);  // its attach flushes
  EXPECT_TRUE(first->quarantine().waits_for.empty());
  for (const Object& object : made) {
    EXPECT_TRUE(holds(first, object.offset, 0x22)) << object.name;
    EXPECT_TRUE(holds(second, object.offset, 0x22)) << object.name;
    ASSERT_TRUE(second->destroy(object));
  }
  ASSERT_TRUE(second->collect());
  EXPECT_EQ(second->quarantine().bytes, 0u);
  EXPECT_EQ(second->stats().bytes_largest_free, room);
}

TEST_P(MemoryOfTheDead, DamagesNoHeader) {
  store_and_die(0);
  const Attached second = attach(1);
  std::vector<Object> small;
  for (int i = 0; i < 100; ++i) {
    const auto made = second->create(fmt::format("small{}", i), 3000);
    ASSERT_TRUE(made) << made.error().message;
    small.push_back(*made);
  }
  const Attached first = attach(0);
  const auto more = first->create("one more", 4096);
  ASSERT_TRUE(more) << more.error().message;
  const auto collected = second->collect();
  ASSERT_TRUE(collected) << collected.error().message;
  EXPECT_EQ(second->list().size(), small.size() + 1);
}

TEST_P(MemoryOfTheDead, ComesBackWhereTheirNodeLivesOn) {
  const Attached keeps = attach(0);
  store_and_die(0);
  const Attached second = attach(1);
  // Asks for all the space, so that it waits for the quarantine.
  const auto all =
      second->create("all", second->stats().bytes_total - coherence::line_bytes, {.zero = false});
  EXPECT_TRUE(all) << all.error().message;
}

TEST_P(MemoryOfTheDead, ComesBackWhenTheirHostIsGone) {
  store_and_die(0);
  const Attached second = attach(1);
  for (const auto& node : second->quarantine().waits_for)
    ASSERT_TRUE(second->end_quarantine_of(node.node));
  ASSERT_TRUE(second->collect());
  EXPECT_EQ(second->quarantine().bytes, 0u);
}

/// The memory of a process that stored to it and then ends in order.
TEST_P(MemoryOfTheDead, LeavesNothingWhereTheyEndInOrder) {
  ASSERT_EQ(run_child([&] {
              const Attached one = attach(0);
              const auto made = one->create("segment", bytes, {.lifetime = Lifetime::process});
              if (!made) return 1;
              std::memset(made->data, 0x11, bytes);
              return 0;
            }),
            0);
  const Attached second = attach(1);
  EXPECT_EQ(second->quarantine().bytes, 0u);
  const auto made = fill(second);
  const Attached first = attach(0);
  for (const Object& object : made) EXPECT_TRUE(holds(first, object.offset, 0x22)) << object.name;
}

INSTANTIATE_TEST_SUITE_P(Modes, MemoryOfTheDead,
                         testing::Values(coherence::Mode::software, coherence::Mode::simulated),
                         [](const auto& mode) { return coherence::mode_name(mode.param); });

}  // namespace
}  // namespace penstock::arena
