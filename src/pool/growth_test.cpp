// Space that a sparse pool takes and returns. Full file systems: tests/e2e/pool_files_test.py.
#include "device/growth.hpp"

#include <sys/stat.h>

#include <cstring>

#include "pool/test_pool.hpp"

namespace penstock::pool::growth_test {
namespace {

constexpr std::uint64_t mib = 1 << 20;

class GrowthTest : public PoolTest {
 protected:
  void make(const std::string& spec, bool sparse) {
    CreateOptions options = create_options();
    options.spec = spec;
    options.bytes = 64 * mib;
    options.sparse = sparse;
    const auto made = pool::create(options);
    ASSERT_TRUE(made) << made.error().message;
    auto pool = Pool::attach({.spec = spec});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = std::move(*pool);
  }
  static std::uint64_t taken(const std::string& path) {
    struct stat status {};
    ::stat(path.c_str(), &status);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  }

  std::unique_ptr<Pool> pool_;
};

TEST_F(GrowthTest, ReturnsWholeBlocksAndKeepsNeighbours) {
  make(spec_, true);
  const std::uint64_t begin = 32 * mib - 100, bytes = 4 * mib + 200;
  ASSERT_TRUE(pool_->device().reserve(begin - 64, bytes + 128));
  const std::uint64_t before = taken(spec_);
  std::memset(pool_->base() + begin - 64, 7, bytes + 128);
  EXPECT_EQ(pool_->device().give_back(begin, bytes), 4 * mib);
  EXPECT_EQ(taken(spec_), before - 4 * mib);
  EXPECT_EQ(pool_->base()[begin - 1], std::byte{7});
  EXPECT_EQ(pool_->base()[begin + bytes], std::byte{7});
  EXPECT_EQ(pool_->base()[32 * mib], std::byte{0});
}

TEST_F(GrowthTest, ReservedPoolKeepsSpace) {
  make(spec_, false);
  EXPECT_FALSE(pool_->device().grows());
  const std::uint64_t before = taken(spec_);
  EXPECT_EQ(pool_->device().give_back(32 * mib, 4 * mib), 0u);
  EXPECT_EQ(taken(spec_), before);
}

/// Otherwise a full file system would end a process by SIGBUS.
TEST_F(GrowthTest, ReservesStripesInEachFile) {
  const std::string one = folder_.file("one"), other = folder_.file("other");
  make(one + "," + other, true);
  EXPECT_TRUE(pool_->device().grows());
  const auto& striping = pool_->info().striping;
  const std::uint64_t bytes = 4 * striping.stripe_bytes;
  const std::uint64_t begin = 32 * mib + striping.stripe_bytes / 2;
  const std::uint64_t before[] = {taken(one), taken(other)};
  ASSERT_TRUE(pool_->device().reserve(begin, bytes));
  EXPECT_EQ(taken(one) - before[0], bytes / 2);
  EXPECT_EQ(taken(other) - before[1], bytes / 2);
  const std::uint64_t reserved[] = {taken(one), taken(other)};
  std::memset(pool_->base() + begin, 7, bytes);
  EXPECT_EQ(taken(one), reserved[0]) << "nothing was missing";
  EXPECT_EQ(taken(other), reserved[1]) << "nothing was missing";
  EXPECT_EQ(pool_->device().give_back(begin, bytes), bytes);
}

/// Another process may return space after this one has attached.
TEST_F(GrowthTest, FullSparsePoolStillGrows) {
  make(spec_, true);
  ASSERT_TRUE(pool_->device().reserve(0, pool_->bytes()));
  const auto later = attach();
  EXPECT_TRUE(later->device().grows());
}

}  // namespace
}  // namespace penstock::pool::growth_test
