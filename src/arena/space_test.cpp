#include "arena/space.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

#include "arena/test_memory.hpp"
#include "base/seed_in_tests.hpp"

namespace penstock::arena {
namespace {

class SpaceTest : public ::testing::Test {
 protected:
  SpaceTest() : formatted_(*format(memory_.region(), memory_.placement())) {}

  Space begin() {
    return *Space::begin(memory_.region(), formatted_.geometry, formatted_.key, memory_.flushes());
  }
  std::uint64_t total() const {
    return formatted_.geometry.extents_end - formatted_.geometry.extents_start;
  }
  std::vector<ExtentHeader> chain() {
    std::vector<ExtentHeader> extents;
    const ExtentReader reader(memory_.region(), formatted_.geometry, formatted_.key);
    const auto walked = reader.for_each([&](const ExtentHeader& e) { extents.push_back(e); });
    EXPECT_TRUE(walked) << walked.error().message;
    return extents;
  }

  TestMemory memory_{16 << 20};
  Formatted formatted_;
};

TEST_F(SpaceTest, StartsAsOneFreeExtent) {
  const auto extents = chain();
  ASSERT_EQ(extents.size(), 1u);
  EXPECT_EQ(extents[0].state, ExtentState::free);
  EXPECT_EQ(extents[0].bytes, total());
}

TEST_F(SpaceTest, AlignsObjects) {
  auto space = begin();
  for (std::uint64_t alignment = 64; alignment <= max_alignment; alignment *= 2) {
    const auto extent = space.allocate({100, alignment});
    ASSERT_TRUE(extent) << extent.error().message;
    EXPECT_EQ((extent->offset + line_bytes) % alignment, 0u);
    EXPECT_EQ(extent->bytes, 64u + 128u);
  }
}

/// They lie one behind the other, each aligned; when all but one are freed, all space around it is
/// free again.
TEST_F(SpaceTest, ARowLiesInOnePiece) {
  auto space = begin();
  const auto row = space.allocate_row(chain()[0], {.bytes = 5000, .alignment = 4096},
                                      {{1, 11}, {2, 22}, {3, 33}});
  ASSERT_TRUE(row) << row.error().message;
  ASSERT_EQ(row->size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const ExtentHeader& each = (*row)[i];
    EXPECT_EQ((each.offset + line_bytes) % 4096, 0u);
    EXPECT_EQ(each.slot, i + 1);
    EXPECT_EQ(each.owner, 11u * (i + 1));
    if (i == 0) continue;
    EXPECT_EQ(each.offset, (*row)[i - 1].offset + (*row)[i - 1].bytes);
    EXPECT_EQ(each.generation, (*row)[i - 1].generation + 1);
  }
  const auto behind = space.allocate({64});
  ASSERT_TRUE(behind);
  EXPECT_EQ(behind->offset, row->back().offset + row->back().bytes);
  space.free(*behind);
  space.free((*row)[0]);
  space.free((*row)[2]);
  EXPECT_EQ(chain().size(), 4u);  // the free space in front of the row, and three pieces
  space.free((*row)[1]);
  (void)space.allocate({total()});  // joins the free extents
  EXPECT_EQ(chain().size(), 1u);
}

TEST_F(SpaceTest, PublishesRowsAtomically) {
  auto space = begin();
  const std::vector<Tenant> tenants(10);
  const auto refused = space.allocate_row(chain()[0], {.bytes = total() / 9}, tenants);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_space);
  EXPECT_FALSE(space.allocate_row(chain()[0], {.bytes = UINT64_MAX / 2}, tenants));
  EXPECT_FALSE(space.allocate_row(chain()[0], {.bytes = 64}, std::vector<Tenant>(total() / 64)));
  EXPECT_FALSE(space.allocate_row(chain()[0], {.bytes = 64}, {}));
  EXPECT_EQ(chain().size(), 1u);
  EXPECT_TRUE(space.allocate_row(chain()[0], {.bytes = total() / 11}, tenants));
  EXPECT_FALSE(space.find_free(total() / 4, 10));
  EXPECT_TRUE(space.find_free(64, 12));
}

/// 8 stripes of 2 MiB on 3 parts, the last row shorter; objects of all sizes, freed at random.
TEST_F(SpaceTest, PutsObjectsOnTheirPart) {
  const device::Striping striping{.bytes = 15 << 20, .stripe_bytes = 2 << 20, .parts = 3};
  TestMemory memory{striping.bytes};
  const Formatted formatted = *format(memory.region(), memory.placement());
  auto space = *Space::begin(memory.region(), formatted.geometry, formatted.key, memory.flushes());
  std::mt19937_64 random(base::seed_in_tests());
  std::vector<ExtentHeader> made;
  std::array<int, 3> on_part{};
  for (int i = 0; i < 600; ++i) {
    if (!made.empty() && random() % 3 == 0) {
      std::swap(made[random() % made.size()], made.back());
      space.free(made.back());
      made.pop_back();
      continue;
    }
    const auto part = static_cast<std::uint32_t>(random() % 3);
    const std::uint64_t bytes = 1 + random() % (random() % 4 == 0 ? 1 << 20 : 1 << 16);
    const std::uint64_t alignment = 64ull << random() % 8;
    const auto extent =
        space.allocate({.bytes = bytes, .alignment = alignment, .on_part = {{striping, part}}});
    if (!extent) {
      EXPECT_EQ(extent.error().code, ErrorCode::no_space);
      EXPECT_NE(extent.error().message.find(fmt::format("on part {}", part)), std::string::npos);
      continue;
    }
    const std::uint64_t at = extent->offset + line_bytes;
    EXPECT_EQ(at % alignment, 0u);
    const auto stripe = striping.stripe_of(at);
    EXPECT_EQ(stripe.part, part);
    EXPECT_LE(at + bytes, stripe.end);
    ++on_part[part];
    made.push_back(*extent);
  }
  for (const int count : on_part) EXPECT_GT(count, 50);
  for (const ExtentHeader& extent : made) space.free(extent);
  ASSERT_TRUE(space.allocate(
      {formatted.geometry.extents_end - formatted.geometry.extents_start - line_bytes}))
      << "all is joined again";
}

/// Whole stripes, to the last byte of the pool; one byte more than a stripe does not fit.
TEST_F(SpaceTest, FillsAStripeOfAPart) {
  const device::Striping striping{.bytes = 12 << 20, .stripe_bytes = 2 << 20, .parts = 2};
  TestMemory memory{striping.bytes};
  const Formatted formatted = *format(memory.region(), memory.placement());
  auto space = *Space::begin(memory.region(), formatted.geometry, formatted.key, memory.flushes());
  const auto make = [&](std::uint64_t bytes) {
    return space.allocate({.bytes = bytes, .on_part = {{striping, 1}}});
  };
  EXPECT_FALSE(make((2 << 20) + 1));
  for (const std::uint64_t begin : {2, 6, 10}) {
    const auto extent = make(2 << 20);
    ASSERT_TRUE(extent) << extent.error().message;
    EXPECT_EQ(extent->offset + line_bytes, begin << 20);
  }
  EXPECT_FALSE(make(64));
}

TEST_F(SpaceTest, GivesAllOfItAndTakesItBack) {
  auto space = begin();
  const auto all = space.allocate({total() - line_bytes});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(chain().size(), 1u);
  EXPECT_EQ(space.allocate({1}).error().code, ErrorCode::no_space);
  space.free(*all);
  EXPECT_EQ(chain().size(), 1u);
  EXPECT_TRUE(space.allocate({total() - line_bytes}));
}

TEST_F(SpaceTest, RefusalNamesTheLargestFree) {
  auto space = begin();
  for (const std::uint64_t bytes : {total(), total() - 63, UINT64_MAX, UINT64_MAX - 127}) {
    const auto refused = space.allocate({bytes});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::no_space);
    EXPECT_NE(refused.error().message.find("largest free"), std::string::npos);
    EXPECT_EQ(refused.error().message.find("space is 0 B"), std::string::npos)
        << refused.error().message;
  }
}

TEST_F(SpaceTest, GenerationsOnlyGrow) {
  std::uint64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    auto space = begin();
    const auto extent = *space.allocate({64});
    EXPECT_GT(extent.generation, last);
    last = extent.generation;
    if (i % 2 == 0) space.free(extent);
  }
}

TEST_F(SpaceTest, HalfWrittenCursorIsRebuiltFromTheExtents) {
  ExtentHeader last{};
  {
    auto space = begin();
    for (int i = 0; i < 5; ++i) last = *space.allocate({64});
    space.free(last);
  }
  memory_.base()[formatted_.geometry.moving_offset() + 8] ^= std::byte{1};
  auto space = begin();
  EXPECT_GT(space.allocate({64})->generation, last.generation);
  EXPECT_EQ(chain().size(), 6u);
}

TEST_F(SpaceTest, HalfWrittenHeaderIsFinishedFromTheJournal) {
  const auto& geometry = formatted_.geometry;
  auto space = begin();
  const auto extent = *space.allocate({64});
  // A process died while it freed this extent: the journal is whole, the header half written.
  ExtentHeader image = extent;
  image.state = ExtentState::free;
  image.checksum = line_checksum(image, formatted_.key);
  JournalTarget journal{};
  journal.magic = journal_magic;
  journal.target = extent.offset;
  unsigned char both[56 + 64];
  std::memcpy(both, &journal, 56);
  std::memcpy(both + 56, &image, 64);
  journal.checksum = hash_bytes(both, sizeof both, formatted_.key);
  std::memcpy(memory_.base() + geometry.journal_offset(), &journal, 64);
  std::memcpy(memory_.base() + geometry.journal_image_offset(), &image, 64);
  std::memcpy(memory_.base() + extent.offset, &image, 40);
  EXPECT_FALSE(begin().peek(extent.offset + 64));
  EXPECT_EQ(chain()[0].state, ExtentState::free);
  // A journal that was finished is erased.
  auto later = begin();
  ASSERT_TRUE(later.allocate({64}));
  begin();
  EXPECT_EQ(chain()[0].state, ExtentState::used);
}

TEST_F(SpaceTest, DamageErrorNamesOffsetAndCommand) {
  auto space = begin();
  const auto first = *space.allocate({64});
  const auto second = *space.allocate({64});
  memory_.base()[second.offset + 16] ^= std::byte{0x40};
  const auto walked = space.for_each([](const ExtentHeader&) {});
  ASSERT_FALSE(walked);
  EXPECT_EQ(walked.error().code, ErrorCode::wrong_format);
  EXPECT_NE(walked.error().message.find(std::to_string(second.offset)), std::string::npos);
  EXPECT_NE(walked.error().message.find("penstock pool create"), std::string::npos);
  EXPECT_NE(walked.error().message.find("--overwrite"), std::string::npos);
  space.free(first);  // its neighbour is allocated: it is freed by itself
  EXPECT_EQ(space.peek(first.offset)->state, ExtentState::free);
}

TEST_F(SpaceTest, ChainStaysWholeUnderRandomUse) {
  const std::uint64_t seed = base::seed_in_tests();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  std::map<std::uint64_t, ExtentHeader> live;
  for (int step = 0; step < 5'000; ++step) {
    auto space = begin();
    if (live.size() < 200 && random() % 3 != 0) {
      SpaceRequest request;
      request.bytes = 1 + random() % (random() % 8 == 0 ? 300'000 : 3'000);
      request.alignment = 64ull << (random() % 8);
      if (const auto extent = space.allocate(request)) {
        ASSERT_TRUE(live.emplace(extent->offset, *extent).second);
      }
    } else if (!live.empty()) {
      auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
      space.free(victim->second);
      live.erase(victim);
    }
    if (step % 50 != 0) continue;
    std::uint64_t sum = 0, used = 0;
    for (const auto& extent : chain()) {
      sum += extent.bytes;
      if (extent.state == ExtentState::free) continue;
      ++used;
      ASSERT_EQ(live.count(extent.offset), 1u);
      ASSERT_EQ(live[extent.offset].bytes, extent.bytes);
    }
    ASSERT_EQ(sum, total());
    ASSERT_EQ(used, live.size());
  }
  for (const auto& [offset, extent] : live) begin().free(extent);
  auto space = begin();
  EXPECT_TRUE(space.allocate({total() - line_bytes})) << "all space came back in one piece";
}

}  // namespace
}  // namespace penstock::arena
