// Guards against 32-bit offsets. The published artifact wrapped at 4 GiB, which 32 ranks with cells
// of 64 KB reach. Uses objects and channel memory beyond 4 GiB and beyond 8 GiB.
#include <deque>

#include "crash_test_base.hpp"
#include "recorder.hpp"

namespace penstock::crash {
namespace {

constexpr std::uint64_t gib = 1ull << 30;

class WideOffsets : public testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    auto made = pool::create({.spec = spec_, .bytes = 12 * gib, .sparse = true});
    ASSERT_TRUE(made) << made.error().message;
    side_ = attach(spec_, {.rank = 0, .job = "wide"});
    first_ = pattern_at("low", 1 << 20, 1);
    ASSERT_LT(first_.offset, gib);
    // The test does not touch the filler, so the file stays small.
    const auto filler = side_.arena->create("filler", GetParam() - gib / 4, {.zero = false});
    ASSERT_TRUE(filler) << filler.error().message;
    const auto rest = side_.arena->create("filler to the mark", gib / 4, {.zero = false});
    ASSERT_TRUE(rest);
  }
  arena::Object pattern_at(const char* name, std::uint64_t bytes, std::uint64_t number) {
    const auto object = side_.arena->create(name, bytes);
    EXPECT_TRUE(object) << object.error().message;
    const auto data = content(number, bytes);
    side_.pool->memory().publish_bulk(object->data, data.data(), bytes);
    side_.pool->memory().store_fence();
    return *object;
  }
  /// Checks the object as another process finds it, by its name.
  void expect_pattern(const char* name, std::uint64_t number) {
    const Attached other = attach(spec_);
    const auto object = other.arena->open(name);
    ASSERT_TRUE(object) << object.error().message;
    std::vector<std::byte> got(object->bytes);
    other.pool->memory().observe_bulk(got.data(), object->data, got.size());
    EXPECT_TRUE(got == content(number, object->bytes)) << name << " at " << object->offset;
  }

  pool::TestFolder folder_;
  std::string spec_ = folder_.file("pool");
  Attached side_;
  arena::Object first_;
};

TEST_P(WideOffsets, ObjectsKeepApart) {
  const auto high = pattern_at("high", 1 << 20, 2);
  EXPECT_GT(high.offset, GetParam());
  // The truncated offset is a different one.
  EXPECT_NE(high.offset & 0xffffffffu, high.offset);
  expect_pattern("low", 1);
  expect_pattern("high", 2);
}

TEST_P(WideOffsets, MessagesThroughAChannelThatLiesThere) {
  const Attached there = attach(spec_, {.rank = 1, .job = "wide"});
  Recorder callbacks, other_callbacks;
  auto one = *transport::Endpoint::open(*side_.arena, callbacks, {"wide"});
  auto other = *transport::Endpoint::open(*there.arena, other_callbacks, {"wide"});
  const auto peer = *one->resolve(other->address());
  const std::uint64_t sizes[] = {8, 3000, 16'384, 100'000, 3 << 20};
  std::deque<std::vector<std::byte>> data;
  std::deque<transport::SendOp> ops;
  for (std::uint64_t tag = 0; tag < 5; ++tag) {
    data.push_back(content(tag, sizes[tag]));
    auto& op = ops.emplace_back();
    op.header = {tag, 0, sizes[tag], 0};
    op.iov[0] = {data.back().data(), data.back().size()};
    op.iov_count = 1;
    ASSERT_TRUE(one->send(peer, &op));
  }
  const std::uint64_t end = base::now_ns() + 20'000'000'000;
  while (other_callbacks.arrived < 5 || !one->drained()) {
    ASSERT_LT(base::now_ns(), end);
    one->progress();
    other->progress();
  }
  EXPECT_EQ(other_callbacks.damaged, 0u);
  std::uint64_t pieces = 0;
  for (const auto& object : side_.arena->list()) {
    if (object.name.rfind("penstock.tx.", 0) != 0) continue;
    ++pieces;
    EXPECT_GT(object.offset, GetParam()) << object.name;
  }
  EXPECT_GT(pieces, 0u);
  expect_pattern("low", 1);
}

INSTANTIATE_TEST_SUITE_P(Beyond, WideOffsets, testing::Values(4 * gib, 8 * gib),
                         [](const auto& mark) { return fmt::format("{}GiB", mark.param / gib); });

}  // namespace
}  // namespace penstock::crash
