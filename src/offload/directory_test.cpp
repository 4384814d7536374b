// Claims of a pool, and asks for regions, on a real pool.
#include "offload/directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "arena/test_pool.hpp"
#include "offload/registration.hpp"

namespace penstock::offload {
namespace {

using testing::HasSubstr;

class DirectoryTest : public testing::Test {
 protected:
  arena::TestPool pool_{32 << 20};

  static Region make_region(arena::Attached& by, const std::string& name) {
    const Shape shape{.ranks = 2, .slot_bytes = 256, .communicator = 77, .owner = by.pool->token()};
    const auto object = by->create(name, Region(0, shape).bytes());
    EXPECT_TRUE(object) << object.error().message;
    return Region(object->offset, shape);
  }
};

TEST_F(DirectoryTest, APoolHasOneSwitchAtATime) {
  auto one = pool_.attach(), other = pool_.attach();
  EXPECT_FALSE(serving(*one.arena)->has_value());
  const auto directory = Directory::find_or_make(*one.arena);
  ASSERT_TRUE(directory) << directory.error().message;
  ASSERT_TRUE(take_claim(*directory, {}));
  const auto theirs = Directory::find(*other.arena);
  ASSERT_TRUE(theirs && *theirs);
  const auto second = take_claim(**theirs, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::already_exists);
  EXPECT_THAT(second.error().message, HasSubstr("has a switch already"));
  EXPECT_THAT(second.error().message, HasSubstr("pid"));
  const auto found = serving(*other.arena);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->tokens, std::vector<std::uint64_t>{one.pool->token()});
  ASSERT_TRUE(give_claim_back(*directory, {}));
  EXPECT_FALSE(serving(*other.arena)->has_value());
  EXPECT_TRUE(take_claim(**theirs, {}));
}

TEST_F(DirectoryTest, ADeadSwitchsClaimIsTakenOver) {
  auto here = pool_.attach();
  const auto directory = Directory::find_or_make(*here.arena);
  {
    auto gone = pool_.attach();
    ASSERT_TRUE(take_claim(**Directory::find(*gone.arena), {}));
  }
  EXPECT_FALSE(serving(*here.arena)->has_value());
  EXPECT_TRUE(take_claim(*directory, {}));
}

TEST_F(DirectoryTest, ASwitchOfAnotherVersionIsNamed) {
  auto here = pool_.attach(), other = pool_.attach();
  const auto directory = Directory::find_or_make(*here.arena);
  {
    const auto guard = here.pool->lock();
    directory->publish_claim(0, {other.pool->token(), protocol_version + 1, 0});
  }
  const auto taken = take_claim(*directory, {});
  const auto served = serving(*here.arena);
  ASSERT_FALSE(taken);
  ASSERT_FALSE(served);
  for (const Error& error : {taken.error(), served.error()}) {
    EXPECT_EQ(error.code, ErrorCode::mismatch);
    EXPECT_THAT(error.message, HasSubstr("install the same version"));
  }
}

TEST_F(DirectoryTest, ADamagedDirectoryIsRefused) {
  auto here = pool_.attach();
  const auto directory = Directory::find_or_make(*here.arena);
  here.pool->memory().publish_word(directory->object().data + 8, 0x1234);
  here.pool->memory().full_fence();
  const auto found = Directory::find(*here.arena);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::wrong_format);
}

TEST_F(DirectoryTest, LeafMatchesSpineAndWholeTreeServes) {
  auto spine = pool_.attach(), leaf = pool_.attach(), wrong = pool_.attach();
  const auto directory = Directory::find_or_make(*spine.arena);
  ASSERT_TRUE(take_claim(*directory, {.number = 0, .leaves = 1}));
  const auto without = serving(*wrong.arena);
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message, HasSubstr("leaf 0 of 1 does not"));
  EXPECT_THAT(without.error().message, HasSubstr("--leaves 1 --leaf 0"));
  const auto refused = take_claim(**Directory::find(*wrong.arena), {.number = 2, .leaves = 2});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("leaf 1 of 2"));
  EXPECT_THAT(refused.error().message, HasSubstr("spine of 1 leaf"));
  ASSERT_TRUE(take_claim(**Directory::find(*leaf.arena), {.number = 1, .leaves = 1}));
  EXPECT_TRUE(serving(*wrong.arena)->has_value());
}

TEST_F(DirectoryTest, ARegionIsFoundAsItWasDescribed) {
  auto here = pool_.attach();
  const Region region = make_region(here, "region");
  describe(*here.pool, region);
  const auto found = find_region(*here.pool, region.offset());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->shape(), region.shape());
  EXPECT_FALSE(find_region(*here.pool, region.offset() + 64));
  EXPECT_FALSE(find_region(*here.pool, here.pool->bytes()));
  EXPECT_FALSE(find_region(*here.pool, ~std::uint64_t{63}));
  // A region whose slots would lie beyond the pool.
  Shape large = region.shape();
  large.slot_bytes = 1 << 30;
  describe(*here.pool, Region(region.offset(), large));
  const auto beyond = find_region(*here.pool, region.offset());
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message, HasSubstr("the pool has"));
}

/// A thread of this test answers as a switch.
TEST_F(DirectoryTest, AnAskIsAnsweredAndTakenBack) {
  auto here = pool_.attach(), there = pool_.attach();
  const auto directory = Directory::find_or_make(*there.arena);
  ASSERT_TRUE(take_claim(*directory, {}));
  const Region region = make_region(here, "region");
  describe(*here.pool, region);
  const auto& memory = there.pool->memory();
  std::byte* const asks = there.pool->base() + directory->ask_line(here.pool->slot());
  std::byte* const answers = there.pool->base() + directory->answer_line(0, here.pool->slot());
  std::atomic<bool> end{false};
  std::thread answering([&] {
    while (!end) {
      const Ask ask{memory.observe_word(asks)};
      if (ask.word == 0) continue;
      memory.publish_word(answers, ask.answered(ask.region() == 0 ? Answer::gone : Answer::served));
      memory.store_fence();
    }
  });
  {
    auto asked = Registration::ask(**serving(*here.arena), region);
    ASSERT_TRUE(asked) << asked.error().message;
    EXPECT_TRUE((*asked)->served());
    EXPECT_EQ(Ask{memory.observe_word(asks)}.region(), region.offset());
    while (!(*asked)->is_withdrawn()) std::this_thread::yield();
    EXPECT_EQ(Ask{memory.observe_word(asks)}.region(), 0u);
  }
  end = true;
  answering.join();
  // If the switch is dead nothing answers, and nothing more is stored to the region.
  auto asked = Registration::ask({*directory, {~std::uint64_t{0} >> 1}}, region);
  ASSERT_TRUE(asked);
  EXPECT_FALSE((*asked)->served());
  EXPECT_THAT((*asked)->why(), HasSubstr("has died"));
  // But its successor may have found the ask.
  EXPECT_FALSE((*asked)->is_withdrawn());
  ASSERT_TRUE(give_claim_back(*directory, {}));
  EXPECT_TRUE((*asked)->is_withdrawn());
}

TEST_F(DirectoryTest, AProcessAsksForSoManyRegions) {
  auto here = pool_.attach();
  const auto directory = Directory::find_or_make(*here.arena);
  const Region region = make_region(here, "region");
  std::vector<std::shared_ptr<Registration>> asked;
  for (std::uint32_t i = 0; i < asks_of_a_process; ++i) {
    auto one = Registration::ask({*directory, {}}, region);
    ASSERT_TRUE(one) << one.error().message;
    asked.push_back(*one);
  }
  EXPECT_EQ(Registration::ask({*directory, {}}, region).error().code, ErrorCode::no_slots);
  EXPECT_TRUE(asked.back()->is_withdrawn());
  asked.pop_back();
  EXPECT_TRUE(Registration::ask({*directory, {}}, region));
}

}  // namespace
}  // namespace penstock::offload
