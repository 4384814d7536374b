#include "persist/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "persist/test_pool.hpp"

namespace penstock::persist {
namespace {

using ::testing::HasSubstr;

class Checkpoints : public ::testing::TestWithParam<coherence::Mode> {
 protected:
  Checkpoints() : pool_(GetParam(), true), self_(pool_.attach()), data_(1000) {
    std::iota(data_.begin(), data_.end(), 1u);
  }
  Checkpoint make() {
    return must(Checkpoint::create(*self_.arena, "saved", bytes(), arena::Lifetime::pool));
  }
  std::uint64_t bytes() const { return data_.size() * sizeof data_[0]; }

  TestPool pool_;
  Attached self_;
  std::vector<std::uint32_t> data_;
};

TEST_P(Checkpoints, TheLastCommittedVersionIsRead) {
  auto one = make();
  EXPECT_EQ(must(one.valid()).version, 0u);
  for (std::uint64_t version = 1; version < 5; ++version) {
    EXPECT_EQ(must(one.begin()), version);
    must(one.write(0, data_.data(), bytes()));
    must(one.commit(version * 10));
    auto other = must(Checkpoint::open(*self_.arena, "saved"));
    const auto valid = must(other.valid());
    EXPECT_EQ(valid.version, version);
    EXPECT_EQ(valid.tag, version * 10);
    std::vector<std::uint32_t> read(data_.size());
    must(other.read(version, read.data(), 0, bytes()));
    EXPECT_EQ(read, data_);
    for (auto& each : data_) each *= 3;
  }
}

TEST_P(Checkpoints, KeepsPartialLinesSideBySide) {
  auto one = make();
  must(one.begin());
  const auto* from = reinterpret_cast<const std::byte*>(data_.data());
  for (std::uint64_t at = 0; at < bytes();) {
    const std::uint64_t part = std::min<std::uint64_t>(8 * (1 + at % 23), bytes() - at);
    must(one.write(at, from + at, part));
    at += part;
  }
  must(one.commit(0));
  std::vector<std::uint32_t> read(data_.size());
  must(one.read(1, read.data(), 0, bytes()));
  EXPECT_EQ(read, data_);
}

TEST_P(Checkpoints, WhoComesLateIsTold) {
  auto one = make(), other = make();
  must(one.begin());
  must(other.begin());
  must(one.write(0, data_.data(), bytes()));
  must(one.commit(1));
  const auto late = other.write(0, data_.data(), 8);
  EXPECT_EQ(late.error().code, ErrorCode::mismatch);
  EXPECT_THAT(late.error().message, HasSubstr("begin again"));
  EXPECT_EQ(other.commit(2).error().code, ErrorCode::mismatch);
  EXPECT_EQ(must(one.valid()).tag, 1u);
  std::uint32_t word;
  EXPECT_EQ(one.read(0, &word, 0, 4).error().code, ErrorCode::unavailable);
}

TEST_P(Checkpoints, WhatCannotBeIsSaidInWords) {
  auto one = make();
  EXPECT_EQ(one.write(0, data_.data(), 8).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(one.write(1 << 20, data_.data(), 8).error().code, ErrorCode::invalid_argument);
  must(self_.arena->create("other", 100'000));
  EXPECT_EQ(Checkpoint::open(*self_.arena, "other").error().code, ErrorCode::wrong_format);
  EXPECT_EQ(Checkpoint::open(*self_.arena, "none").error().code, ErrorCode::not_found);
  EXPECT_EQ(Checkpoint::create(*self_.arena, "saved", 5 * bytes()).error().code,
            pool_.attach().pool->device().durability() == device::Durability::none
                ? ErrorCode::unavailable
                : ErrorCode::already_exists);
  EXPECT_EQ(Checkpoint::create(*self_.arena, "saved", 0).error().code, ErrorCode::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Modes, Checkpoints,
                         ::testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& each) { return coherence::mode_name(each.param); });

}  // namespace
}  // namespace penstock::persist
