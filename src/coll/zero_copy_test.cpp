// Zero copy: the checks of the line that says where a chunk lies.
#include "coll/zero_copy.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "pool/test_pool.hpp"

namespace penstock::coll {
namespace {

class ZeroCopyTest : public testing::Test {
 protected:
  ZeroCopyTest() {
    EXPECT_TRUE(pool::create(
        {.spec = folder_.file("pool"), .bytes = bytes_, .mode = coherence::Mode::software}));
    pool_ = *pool::Pool::attach({.spec = folder_.file("pool")});
  }
  const std::byte* at(std::uint64_t offset) const { return pool_->base() + offset; }

  static constexpr std::uint64_t bytes_ = 16 << 20, word_ = chunk_word(7, 3);
  pool::TestFolder folder_;
  std::unique_ptr<pool::Pool> pool_;
};

TEST_F(ZeroCopyTest, OnlyWholeLinesOfThePoolStay) {
  EXPECT_EQ(lines_in_pool(*pool_, at(64), 128), 64u);
  EXPECT_EQ(lines_in_pool(*pool_, at(bytes_ - 64), 64), bytes_ - 64);
  EXPECT_FALSE(lines_in_pool(*pool_, at(bytes_ - 64), 128));
  EXPECT_FALSE(lines_in_pool(*pool_, at(32), 128));
  EXPECT_FALSE(lines_in_pool(*pool_, at(64), 100));
  EXPECT_FALSE(lines_in_pool(*pool_, this, 64));
}

TEST_F(ZeroCopyTest, RefusesOtherChunksAndPlacesOutsideThePool) {
  const PartPlace place = place_of(word_, 4096, 256);
  EXPECT_EQ(part_at(*pool_, place, word_, 256), at(4096));
  EXPECT_EQ(part_at(*pool_, place, word_, 64), at(4096));
  EXPECT_EQ(part_at(*pool_, place, word_, 257), nullptr);
  EXPECT_EQ(part_at(*pool_, place, chunk_word(7, 2), 256), nullptr);
  EXPECT_EQ(part_at(*pool_, place, chunk_word(8, 3), 256), nullptr);
  constexpr std::uint64_t outside[] = {bytes_, bytes_ - 64, ~0ull - 127, 4097};
  for (const std::uint64_t offset : outside)
    EXPECT_EQ(part_at(*pool_, place_of(word_, offset, 128), word_, 128), nullptr) << offset;
  EXPECT_EQ(part_at(*pool_, PartPlace{}, 0, 0), nullptr);
}

TEST_F(ZeroCopyTest, EveryDamageIsFound) {
  const PartPlace place = place_of(word_, 4096, 256);
  for (std::size_t bit = 0; bit < sizeof place * 8; ++bit) {
    PartPlace damaged = place;
    reinterpret_cast<unsigned char*>(&damaged)[bit / 8] ^=
        static_cast<unsigned char>(1u << bit % 8);
    EXPECT_EQ(part_at(*pool_, damaged, word_, 256), nullptr) << "bit " << bit;
  }
}

}  // namespace
}  // namespace penstock::coll
