// Regions and copies between two attachments of one pool.
#include "rma/rma.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "arena/test_pool.hpp"
#include "rma/layout.hpp"

namespace penstock::rma {
namespace {

constexpr std::uint64_t pool_bytes = 32u << 20;
constexpr std::uint64_t target_base = 0x7000'0000'0000;

class Rma : public testing::TestWithParam<coherence::Mode> {
 protected:
  Rma() : pool_(pool_bytes, GetParam()), owner_(pool_.attach()), peer_(pool_.attach()) {
    auto made = RegionTable::make(*owner_.arena);
    EXPECT_TRUE(made) << made.error().message;
    table_ = std::move(*made);
    auto object = owner_->create("target", 1 << 20);
    EXPECT_TRUE(object) << object.error().message;
    target_ = *object;
  }
  Region region(std::uint64_t key, std::uint64_t bytes, std::uint64_t from = 0,
                std::uint32_t access = remote_read | remote_write) const {
    return {key, target_base, bytes, target_.offset + from, access};
  }
  PeerRegions view() const { return PeerRegions(*peer_.pool, table_->place()); }
  std::vector<std::byte> held(std::uint64_t from, std::uint64_t bytes) {
    std::vector<std::byte> copy(bytes);
    owner_.pool->memory().observe_bulk(copy.data(), target_.data + from, bytes);
    return copy;
  }

  arena::TestPool pool_;
  arena::Attached owner_, peer_;
  std::unique_ptr<RegionTable> table_;
  arena::Object target_;
};

std::vector<std::byte> pattern(std::uint64_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  std::mt19937 random(seed);
  for (auto& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

TEST_P(Rma, PutAndGetCopyExactlyTheirBytes) {
  ASSERT_TRUE(table_->add(region(5, 4096)));
  PeerRegions peer = view();
  auto expected = held(0, 4096);
  std::mt19937 random(1);
  for (unsigned i = 0; i < 400; ++i) {
    const std::uint64_t at = random() % 700;
    const std::uint64_t bytes = i % 3 == 0 ? random() % 16 : random() % 3000;
    const auto data = pattern(bytes, i);
    ASSERT_TRUE(peer.put(5, target_base + at, data.data(), bytes));
    std::copy(data.begin(), data.end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
    ASSERT_EQ(held(0, 4096), expected) << bytes << " at " << at;
    std::vector<std::byte> got(bytes);
    ASSERT_TRUE(peer.get(5, target_base + at, got.data(), bytes));
    ASSERT_EQ(got, data);
  }
}

TEST_P(Rma, ReachesNothingOutsideARegionOrWithoutPermission) {
  ASSERT_TRUE(table_->add(region(1, 100, 64, remote_read)));
  ASSERT_TRUE(table_->add(region(2, 100, 64, remote_write)));
  Region elsewhere = region(3, 100);
  elsewhere.offset = not_in_pool;
  ASSERT_TRUE(table_->add(elsewhere));
  PeerRegions peer = view();
  std::byte data[200] = {};
  EXPECT_EQ(peer.put(1, target_base, data, 8).error().code, ErrorCode::permission);
  EXPECT_EQ(peer.get(2, target_base, data, 8).error().code, ErrorCode::permission);
  for (const auto& [at, bytes] : {std::pair{target_base, 101ull},
                                  {target_base + 100, 1ull},
                                  {target_base - 1, 1ull},
                                  {target_base + 1, ~0ull},
                                  {~0ull, 2ull}}) {
    EXPECT_EQ(peer.get(1, at, data, bytes).error().code, ErrorCode::invalid_argument) << at;
    EXPECT_EQ(peer.put(2, at, data, bytes).error().code, ErrorCode::invalid_argument) << at;
  }
  EXPECT_EQ(peer.put(3, target_base, data, 8).error().code, ErrorCode::unavailable);
  EXPECT_EQ(peer.put(4, target_base, data, 8).error().code, ErrorCode::not_found);
  EXPECT_TRUE(peer.get(1, target_base + 100, data, 0));
}

TEST_P(Rma, AKeyMeansWhatWasRegisteredLast) {
  ASSERT_TRUE(table_->add(region(9, 64, 0)));
  EXPECT_EQ(table_->add(region(9, 64, 0)).error().code, ErrorCode::already_exists);
  PeerRegions peer = view();
  const auto data = pattern(64, 3);
  ASSERT_TRUE(peer.put(9, target_base, data.data(), 64));
  table_->remove(9);
  EXPECT_EQ(peer.put(9, target_base, data.data(), 64).error().code, ErrorCode::not_found);
  ASSERT_TRUE(table_->add(region(9, 64, 640)));
  ASSERT_TRUE(peer.put(9, target_base, data.data(), 64));
  EXPECT_EQ(held(640, 64), data);
  table_->remove(9);
  ASSERT_TRUE(table_->add(region(9, 64, 1280)));
  std::vector<std::byte> got(64);
  ASSERT_TRUE(peer.get(9, target_base, got.data(), 64));
  EXPECT_EQ(got, held(1280, 64));
}

TEST_P(Rma, ThousandsOfRegionsAreFound) {
  constexpr std::uint64_t regions = 5000;
  for (std::uint64_t key = 0; key < regions; ++key) {
    ASSERT_TRUE(table_->add(region(key, 1, key)));
  }
  for (std::uint64_t key = 0; key < regions; key += 3) table_->remove(key);
  PeerRegions peer = view();
  for (std::uint64_t key = 0; key < regions; ++key) {
    const auto found = peer.find(key);
    ASSERT_EQ(found.has_value(), key % 3 != 0) << key;
    if (found) {
      ASSERT_EQ(found->offset, target_.offset + key);
    }
  }
  for (std::uint64_t key = 0; key < regions; key += 3) {
    ASSERT_TRUE(table_->add(region(key, 1, key)));
  }
  EXPECT_TRUE(peer.find(0));
}

TEST_P(Rma, AClosedOrDamagedTableIsAnError) {
  ASSERT_TRUE(table_->add(region(1, 64)));
  PeerRegions peer = view(), late = view();
  ASSERT_TRUE(peer.find(1));
  for (const std::uint64_t place : {std::uint64_t{1}, std::uint64_t{4096}, pool_bytes - 64,
                                    pool_bytes * 2, ~std::uint64_t{63}}) {
    EXPECT_FALSE(PeerRegions(*peer_.pool, place).find(1)) << place;
  }
  table_.reset();
  EXPECT_FALSE(peer.find(1));
  EXPECT_FALSE(late.find(1));
}

/// Overwrites each word of a region's line and of the header: peers find the old region, or fail.
TEST_P(Rma, NonsenseInTheTableIsNotBelieved) {
  ASSERT_TRUE(table_->add(region(1, 64)));
  const std::uint64_t place = table_->place();
  for (std::uint64_t at = place; at < place + 64 + 64 * first_capacity; at += 8) {
    auto* word = owner_.pool->base() + at;
    const std::uint64_t before = owner_.pool->memory().observe_word(word);
    for (const std::uint64_t nonsense : {std::uint64_t{1}, ~std::uint64_t{0}, before + 64}) {
      owner_.pool->memory().publish_word(word, nonsense);
      owner_.pool->memory().store_fence();
      std::byte data[64];
      PeerRegions peer = view();
      if (const auto got = peer.get(1, target_base, data, 64); got) {
        EXPECT_EQ(peer.find(1)->offset, target_.offset) << at;
      }
    }
    owner_.pool->memory().publish_word(word, before);
    owner_.pool->memory().store_fence();
  }
  EXPECT_TRUE(view().find(1));
}

INSTANTIATE_TEST_SUITE_P(Modes, Rma,
                         testing::Values(coherence::Mode::software, coherence::Mode::hardware),
                         [](const auto& test) { return coherence::mode_name(test.param); });

}  // namespace
}  // namespace penstock::rma
