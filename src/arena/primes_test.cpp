#include "arena/primes.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace penstock::arena {
namespace {

TEST(Primes, KnowsSmallNumbers) {
  const std::uint64_t primes[] = {2, 3, 5, 7, 11, 13, 97, 199'999, 1'000'003};
  const std::uint64_t others[] = {0, 1, 4, 9, 25, 49, 91, 200'000, 199'999ull * 199'967};
  for (const auto number : primes) EXPECT_TRUE(is_prime(number)) << number;
  for (const auto number : others) EXPECT_FALSE(is_prime(number)) << number;
}

TEST(Primes, LevelsFallStrictlyAndAreNeighbouringPrimes) {
  for (const std::uint64_t capacity : {67u, 100u, 1'000u, 54'321u, 200'000u}) {
    const auto sizes = level_sizes(capacity);
    ASSERT_TRUE(sizes);
    std::uint64_t above = capacity + 1;
    for (const auto size : *sizes) {
      ASSERT_LT(size, above);
      EXPECT_TRUE(is_prime(size));
      for (std::uint64_t between = size + 1; between < above; ++between) {
        EXPECT_FALSE(is_prime(between)) << between << " was left out";
      }
      above = size;
    }
  }
}

// cMPI section 3.7: at most 200,000 slots on level one give ten levels from 199,999 to 199,873, and
// 1,999,260 slots in all.
TEST(Primes, GiveThePublishedTable) {
  const auto sizes = level_sizes(200'000);
  ASSERT_TRUE(sizes);
  EXPECT_EQ(sizes->front(), 199'999u);
  EXPECT_EQ(sizes->back(), 199'873u);
  EXPECT_EQ(std::accumulate(sizes->begin(), sizes->end(), std::uint64_t{0}), 1'999'260u);
}

TEST(Primes, NeedTenBelowTheCapacity) {
  EXPECT_TRUE(level_sizes(29));
  EXPECT_FALSE(level_sizes(28));
  EXPECT_FALSE(level_sizes(0));
}

}  // namespace
}  // namespace penstock::arena
