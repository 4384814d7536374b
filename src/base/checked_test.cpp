#include "base/checked.hpp"

#include <gtest/gtest.h>

namespace penstock::base {
namespace {

TEST(Checked, AddAndMultiplyNoticeOverflow) {
  EXPECT_EQ(checked_add(2, 3), 5u);
  EXPECT_EQ(checked_add(UINT64_MAX, 0), UINT64_MAX);
  EXPECT_EQ(checked_add(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_mul(1ull << 32, 1ull << 31), 1ull << 63);
  EXPECT_EQ(checked_mul(1ull << 32, 1ull << 32), std::nullopt);
  EXPECT_EQ(checked_mul_signed(-3, 8), -24);
  EXPECT_EQ(checked_mul_signed(1ll << 61, 8), std::nullopt);
  EXPECT_EQ(checked_mul_signed(-(1ll << 61), 8), std::nullopt);
}

TEST(Checked, RangeInsideIsNotFooledByOverflow) {
  EXPECT_TRUE(range_inside(0, 64, 64));
  EXPECT_TRUE(range_inside(64, 0, 64));
  EXPECT_FALSE(range_inside(1, 64, 64));
  EXPECT_FALSE(range_inside(65, 0, 64));
  EXPECT_FALSE(range_inside(UINT64_MAX, 2, 64));
  EXPECT_FALSE(range_inside(8, UINT64_MAX, 64));
}

TEST(Checked, AlignsUp) {
  EXPECT_EQ(align_up(0, 64), 0u);
  EXPECT_EQ(align_up(1, 64), 64u);
  EXPECT_EQ(align_up(64, 64), 64u);
  EXPECT_EQ(align_up(65, 4096), 4096u);
}

}  // namespace
}  // namespace penstock::base
