#include "window/ranges.hpp"

#include <gtest/gtest.h>

#include <random>

namespace penstock::window::ranges_test {
namespace {

constexpr std::uint64_t segment = 1 << 20;

TEST(Ranges, CoverWholeLinesOnceIncluded) {
  Ranges ranges;
  EXPECT_FALSE(ranges.cover(0, 1));
  ranges.include(100, 130, segment);
  EXPECT_TRUE(ranges.cover(64, 192));
  EXPECT_FALSE(ranges.cover(63, 65));
  EXPECT_FALSE(ranges.cover(100, 193));
}

TEST(Ranges, KeepFarRangesApart) {
  Ranges ranges;
  for (const std::uint64_t at : {0u, 100'000u, 200'000u}) ranges.include(at, at + 8, segment);
  EXPECT_TRUE(ranges.cover(100'000, 100'008));
  EXPECT_FALSE(ranges.cover(50'000, 50'001));
  ranges.include(210'000, 210'001, segment);  // merged into the nearest
  EXPECT_TRUE(ranges.cover(200'000, 210'001));
  EXPECT_TRUE(ranges.cover(0, 8));
  EXPECT_FALSE(ranges.cover(50'000, 50'001));
}

TEST(Ranges, DoubleWhileWalkingThroughSegment) {
  Ranges ranges;
  int asked = 0;
  for (std::uint64_t at = 0; at < segment; at += 64) {
    if (ranges.cover(at, at + 64)) continue;
    ranges.include(at, at + 64, segment);
    ++asked;
  }
  EXPECT_LE(asked, 20);
  asked = 0;
  Ranges down;
  for (std::uint64_t at = segment; at != 0; at -= 64) {
    if (down.cover(at - 64, at)) continue;
    down.include(at - 64, at, segment);
    ++asked;
  }
  EXPECT_LE(asked, 20);
}

TEST(Ranges, GrowExactlyOnRequest) {
  Ranges ranges;
  ranges.include(0, 64, segment, Ranges::Growth::exact);
  ranges.include(640, 700, segment, Ranges::Growth::exact);
  EXPECT_TRUE(ranges.cover(0, 704));
  EXPECT_EQ(ranges.bytes(), 704u);
  ranges.include(100'000, 100'001, segment, Ranges::Growth::exact);
  EXPECT_EQ(ranges.bytes(), 704u + 64u);
}

TEST(Ranges, CoverRangesThatLieWithin) {
  Ranges ranges, others;
  EXPECT_TRUE(ranges.cover(others));
  others.include(64, 128, segment);
  EXPECT_FALSE(ranges.cover(others));
  ranges.include(0, 192, segment);
  EXPECT_TRUE(ranges.cover(others));
  others.include(100'000, 100'001, segment);
  EXPECT_FALSE(ranges.cover(others));
}

TEST(Ranges, HoldIncludedBytesWithinSegment) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t bytes = 1 + random() % 100'000;
    Ranges ranges;
    std::vector<Range> all;
    for (int j = 0; j < 12; ++j) {
      const std::uint64_t from = random() % bytes, to = from + 1 + random() % (bytes - from);
      ranges.include(from, to, bytes);
      all.push_back({from, to});
      for (const Range& range : all) EXPECT_TRUE(ranges.cover(range.first, range.end));
    }
    for (const Range& range : ranges.all()) EXPECT_LE(range.end, (bytes + 63) / 64 * 64);
  }
}

}  // namespace
}  // namespace penstock::window::ranges_test
