// Guards against flushing the whole object table at every create. Counts operations, not time.
#include "crash_test_base.hpp"

namespace penstock::crash {
namespace {

struct Cost {
  std::uint64_t publishes, lines, invalidations;
};

class CreateCost : public CrashTest {
 protected:
  /// The cost of one create and one destroy of 4 KiB in a pool of `pool_bytes`.
  std::pair<Cost, std::uint64_t> measure(std::uint64_t pool_bytes) {
    pool::TestFolder folder;
    spec_ = folder.file("pool");
    auto made = pool::create({.spec = spec_, .bytes = pool_bytes, .sparse = true});
    EXPECT_TRUE(made) << made.error().message;
    const Attached here = attach(spec_);
    EXPECT_TRUE(here.arena->create("first", 4096));
    const Operations before = operations();
    const auto object = here.arena->create("second", 4096);
    EXPECT_TRUE(object && here.arena->destroy(*object));
    const Operations now = operations();
    return {{now.publishes - before.publishes, now.lines - before.lines,
             now.invalidations - before.invalidations},
            here.arena->stats().slots};
  }
};

TEST_F(CreateCost, IsTheSameInALargeTable) {
  const auto [small, small_slots] = measure(16 << 20);
  const auto [large, large_slots] = measure(8ull << 30);
  ASSERT_GT(large_slots, 100 * small_slots);
  EXPECT_EQ(large.publishes, small.publishes);
  EXPECT_EQ(large.lines, small.lines);
  EXPECT_LE(large.invalidations, small.invalidations + 16) << "a few more levels may be looked at";
  EXPECT_LT(large.lines, 150u) << "64 of them are the object's own";
}

}  // namespace
}  // namespace penstock::crash
