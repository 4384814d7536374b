// Guards against a pool path and size that are compiled in. One process uses two pools of different
// sizes and modes at once, and they stay separate.
#include "crash_test_base.hpp"

namespace penstock::crash {
namespace {

TEST(TwoPools, OfDifferentSizeAndModeAtOnce) {
  const pool::TestFolder folder;
  const std::string specs[] = {folder.file("small"), folder.file("large")};
  ASSERT_TRUE(pool::create({.spec = specs[0], .bytes = 16 << 20}));
  ASSERT_TRUE(
      pool::create({.spec = specs[1], .bytes = 40 << 20, .mode = coherence::Mode::hardware}));
  const Attached sides[] = {attach(specs[0]), attach(specs[1])};
  EXPECT_EQ(sides[0].pool->bytes(), 16u << 20);
  EXPECT_EQ(sides[1].pool->bytes(), 40u << 20);
  EXPECT_EQ(sides[0].pool->memory().mode(), coherence::Mode::software);
  EXPECT_EQ(sides[1].pool->memory().mode(), coherence::Mode::hardware);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const auto object = sides[i].arena->create("same name", 64);
    ASSERT_TRUE(object);
    sides[i].pool->memory().publish_word(object->data, i + 1);
    sides[i].pool->memory().store_fence();
  }
  for (std::uint64_t i = 0; i < 2; ++i) {
    const auto object = sides[i].arena->open("same name");
    EXPECT_EQ(sides[i].pool->memory().observe_word(object->data), i + 1);
  }
  ASSERT_TRUE(sides[0].arena->destroy(*sides[0].arena->open("same name")));
  EXPECT_TRUE(sides[1].arena->open("same name"));
}

}  // namespace
}  // namespace penstock::crash
