// Guards against objects (windows) that are never freed. The published artifact's 2 GiB pool was
// full after about 60 of them.
#include <deque>

#include "crash_test_base.hpp"

namespace penstock::crash {
namespace {

class ObjectChurn : public CrashTest {
 protected:
  void SetUp() override { create(); }
};

TEST_F(ObjectChurn, ManyCyclesLeaveASmallPoolUnchanged) {
  const Standing before = collected(spec_);
  const Attached here = attach(spec_);
  const auto untouched = here.arena->stats();
  std::mt19937_64 random(7);
  std::deque<arena::Object> held;
  for (int cycle = 0; cycle < 10'000; ++cycle) {
    const auto name = fmt::format("window.{}", cycle);
    const auto made = here.arena->create(name, 1 + random() % 200'000, {.zero = false});
    ASSERT_TRUE(made) << "cycle " << cycle << ": " << made.error().message;
    held.push_back(*made);
    if (held.size() <= random() % 8) continue;
    const std::size_t which = random() % held.size();
    ASSERT_TRUE(here.arena->destroy(held[which]));
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
  }
  for (const auto& object : held) ASSERT_TRUE(here.arena->destroy(object));
  const auto after = here.arena->stats();
  EXPECT_EQ(after.bytes_used, untouched.bytes_used);
  EXPECT_EQ(after.objects, untouched.objects);
  EXPECT_EQ(after.bytes_largest_free, untouched.bytes_largest_free);
  EXPECT_EQ(collected(spec_).bytes_used, before.bytes_used);
}

TEST_F(ObjectChurn, TwentyThousandAtOnce) {
  pool::TestFolder folder;
  spec_ = folder.file("pool");
  create(256 << 20);
  const Attached here = attach(spec_);
  const auto before = here.arena->stats();
  std::vector<arena::Object> all;
  for (int i = 0; i < 20'000; ++i) {
    auto made = here.arena->create(fmt::format("object.{}", i), 64, {.zero = false});
    if (!made) {
      EXPECT_EQ(made.error().code, ErrorCode::no_slots) << made.error().message;
      EXPECT_THAT(made.error().message, testing::HasSubstr("penstock pool gc"));
      break;
    }
    all.push_back(*made);
  }
  EXPECT_EQ(all.size(), 20'000u) << "of " << before.slots << " slots";
  EXPECT_EQ(here.arena->stats().objects, before.objects + all.size());
  EXPECT_EQ(here.arena->open("object.12345")->offset, all.at(12'345).offset);
  for (const auto& object : all) ASSERT_TRUE(here.arena->destroy(object));
  EXPECT_EQ(here.arena->stats().bytes_used, before.bytes_used);
}

TEST_F(ObjectChurn, FullNameTableIsAClearError) {
  const Attached here = attach(spec_);
  std::vector<arena::Object> all;
  Error refused;
  for (std::uint64_t i = 0; i <= here.arena->stats().slots; ++i) {
    auto made = here.arena->create(fmt::format("n{}", i), 1, {.zero = false});
    if (!made) {
      refused = made.error();
      break;
    }
    all.push_back(*made);
    if (i % 512 == 0 && here.arena->stats().slots <= i) break;
  }
  EXPECT_EQ(refused.code, ErrorCode::no_slots) << refused.message;
  EXPECT_THAT(refused.message, testing::HasSubstr("penstock pool gc"));
  ASSERT_TRUE(here.arena->destroy(all.back()));
  for (std::size_t i = 0; i + 1 < all.size(); ++i) ASSERT_TRUE(here.arena->destroy(all[i]));
  EXPECT_TRUE(here.arena->create("again", 1));
}

}  // namespace
}  // namespace penstock::crash
