// Registered memory: in pieces, once for all that name it, and rolled back if one piece fails.
#include "gpu/pinned.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>

#include "base/format.hpp"
#include "gpu/test_driver.hpp"

namespace penstock::gpu {
namespace {

constexpr std::uint64_t page = 4096;

class PinnedTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(open_test_driver());
    device_ = *Device::current();
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  void TearDown() override { munmap(memory_, 8 * page); }
  bool is_registered(std::uint64_t offset) {
    const Device::Scope scope(*device_);
    cuda::DevicePointer found = 0;
    return device_->driver().host_device_pointer(&found, memory_ + offset, 0) == cuda::success;
  }

  std::shared_ptr<const Device> device_;
  std::byte* memory_ = nullptr;
};

TEST_F(PinnedTest, TakesWholePagesInPieces) {
  {
    const auto pinned = Pinned::make(device_, memory_ + 100, 4 * page, 2 * page);
    ASSERT_TRUE(pinned) << pinned.error().message;
    EXPECT_TRUE(pinned->has(memory_));
    EXPECT_TRUE(pinned->has(memory_ + 5 * page - 1));
    EXPECT_FALSE(pinned->has(memory_ + 5 * page));
    EXPECT_EQ(pinned->at(memory_ + 77), pinned->at(memory_) + 77);
    EXPECT_TRUE(is_registered(4 * page));
  }
  EXPECT_FALSE(is_registered(0));
  EXPECT_FALSE(is_registered(4 * page));
}

TEST_F(PinnedTest, PartsAreOfThePieceThatHasThem) {
  auto whole = Pinned::make(device_, memory_, 4 * page);
  auto part = Pinned::make(device_, memory_ + page, 2 * page);
  ASSERT_TRUE(whole && part) << part.error().message;
  EXPECT_EQ(part->at(memory_ + page + 5), whole->at(memory_ + page + 5));
  whole = fail(ErrorCode::unavailable, "gone");
  EXPECT_TRUE(is_registered(0));
  EXPECT_TRUE(Pinned::make(device_, memory_ + 3 * page, page));
}

TEST_F(PinnedTest, RefusesMemoryThatIsRegisteredInPart) {
  const auto first = Pinned::make(device_, memory_ + page, 2 * page);
  ASSERT_TRUE(first) << first.error().message;
  for (const std::uint64_t begin : {0ull, 1ull, 2ull}) {
    const auto longer = Pinned::make(device_, memory_ + begin * page, 3 * page);
    ASSERT_FALSE(longer);
    EXPECT_EQ(longer.error().code, ErrorCode::unavailable);
  }
  EXPECT_TRUE(Pinned::make(device_, memory_ + 3 * page, page));
}

TEST_F(PinnedTest, IsRegisteredAsLongAsOneNamesIt) {
  auto first = Pinned::make(device_, memory_, page);
  auto second = Pinned::make(device_, memory_, page);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->at(memory_), second->at(memory_));
  first = fail(ErrorCode::unavailable, "gone");
  EXPECT_TRUE(is_registered(0));
  second = fail(ErrorCode::unavailable, "gone");
  EXPECT_FALSE(is_registered(0));
}

TEST_F(PinnedTest, TakesMemoryThatHasNoPages) {
  if (on_a_gpu()) GTEST_SKIP();
  setenv("STANDIN_MEMORY_HAS_NO_PAGES", "1", 1);
  const auto pinned = Pinned::make(device_, memory_, page);
  EXPECT_TRUE(pinned) << pinned.error().message;
  EXPECT_TRUE(is_registered(0));
  unsetenv("STANDIN_MEMORY_HAS_NO_PAGES");
}

TEST_F(PinnedTest, RollsBackWhatWasRegistered) {
  const auto in_the_way = Pinned::make(device_, memory_ + 3 * page, page);
  ASSERT_TRUE(in_the_way);
  // The second piece overlaps memory that is registered already.
  EXPECT_FALSE(Pinned::make(device_, memory_, 4 * page, 2 * page));
  EXPECT_FALSE(is_registered(0));
  EXPECT_TRUE(is_registered(3 * page));
  EXPECT_TRUE(Pinned::make(device_, memory_, page));
}

}  // namespace
}  // namespace penstock::gpu
