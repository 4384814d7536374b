#include "arena/geometry.hpp"

#include <gtest/gtest.h>

#include <set>

namespace penstock::arena {
namespace {

TEST(Geometry, TableTakesAboutOneSixtyFourth) {
  for (const std::uint64_t bytes : {64ull << 20, 1ull << 30, 8ull << 30}) {
    const auto geometry = Geometry::choose(4096, bytes);
    ASSERT_TRUE(geometry);
    const std::uint64_t table = std::uint64_t{geometry->slots} * sizeof(Slot);
    EXPECT_LE(table, bytes / 64);
    EXPECT_GE(table, bytes / 64 * 8 / 10);
  }
}

TEST(Geometry, StaysWithinThePublishedTable) {
  EXPECT_EQ(Geometry::choose(0, 1ull << 40)->levels[0], 199'999u);
  EXPECT_EQ(Geometry::choose(0, 1ull << 20)->levels[0], 67u);
}

TEST(Geometry, LeavesNoOverlap) {
  const auto geometry = Geometry::choose(8192 + 64, (64 << 20) + 100);
  ASSERT_TRUE(geometry);
  EXPECT_GE(geometry->slot_offset(0), geometry->journal_image_offset() + 64);
  EXPECT_GE(geometry->extents_start, geometry->slot_offset(geometry->slots));
  EXPECT_LE(geometry->extents_end, 8192 + 64 + (64 << 20) + 100u);
  EXPECT_EQ(geometry->extents_start % 64, 0u);
  EXPECT_EQ(geometry->extents_end % 64, 0u);
}

TEST(Geometry, CandidatesLieOneInEachLevel) {
  const auto geometry = *Geometry::choose(0, 64 << 20);
  for (std::uint64_t hash : {0ull, 1ull, ~0ull, 0x9e3779b97f4a7c15ull}) {
    std::uint64_t start = 0;
    const auto candidates = geometry.candidates(hash);
    for (std::uint32_t level = 0; level < table_levels; ++level) {
      EXPECT_GE(candidates[level], start);
      start += geometry.levels[level];
      EXPECT_LT(candidates[level], start);
    }
    EXPECT_EQ(std::set(candidates.begin(), candidates.end()).size(), table_levels);
  }
}

TEST(Geometry, RefusesWhatCannotBe) {
  EXPECT_EQ(Geometry::choose(0, 100'000).error().code, ErrorCode::no_space);
  EXPECT_EQ(Geometry::choose(1, 64 << 20).error().code, ErrorCode::wrong_format);
  EXPECT_EQ(Geometry::choose(~0ull - 63, 64 << 20).error().code, ErrorCode::wrong_format);
  EXPECT_EQ(Geometry::with_level_one(0, 64 << 20, 100).error().code, ErrorCode::wrong_format);
  EXPECT_EQ(Geometry::with_level_one(0, 64 << 20, 61).error().code, ErrorCode::wrong_format);
  EXPECT_EQ(Geometry::with_level_one(0, 1 << 20, 199'999).error().code, ErrorCode::no_space);
}

TEST(Geometry, BoundsObjects) {
  const auto geometry = *Geometry::choose(0, 64 << 20);
  const std::uint64_t first = geometry.extents_start + 64;
  EXPECT_TRUE(geometry.holds_object(first, 1));
  EXPECT_TRUE(geometry.holds_object(first, geometry.extents_end - first));
  EXPECT_FALSE(geometry.holds_object(first, geometry.extents_end - first + 1));
  EXPECT_FALSE(geometry.holds_object(first, ~0ull));
  EXPECT_FALSE(geometry.holds_object(first, 0));
  EXPECT_FALSE(geometry.holds_object(first + 1, 1));
  EXPECT_FALSE(geometry.holds_object(geometry.extents_start, 1));
  EXPECT_FALSE(geometry.holds_object(~0ull & ~63ull, 1));
}

}  // namespace
}  // namespace penstock::arena
