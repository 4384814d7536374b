#include "base/checksum.hpp"

#include <gtest/gtest.h>

#include <array>

namespace penstock::base {
namespace {

// The values stand in the specification's reference implementation.
TEST(Checksum, IsXxh64) {
  EXPECT_EQ(xxh64(nullptr, 0, 0), 0xef46db3751d8e999u);
  EXPECT_EQ(xxh64("a", 1, 0), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(xxh64("abc", 3, 0), 0x44bc2cf5ad770999u);
}

TEST(Checksum, ChangesWithTheSeedAndWithEachWord) {
  std::array<std::uint64_t, 7> words{};
  const std::uint64_t before = xxh64(words.data(), sizeof words, 1);
  EXPECT_NE(before, xxh64(words.data(), sizeof words, 2));
  EXPECT_NE(before, 0u);
  for (std::uint64_t& word : words) {
    word = 1;
    EXPECT_NE(before, xxh64(words.data(), sizeof words, 1));
    word = 0;
  }
}

}  // namespace
}  // namespace penstock::base
