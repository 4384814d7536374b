// The two streams of a rank, on the stand-in GPU.
#include "gpu/lanes.hpp"

#include <gtest/gtest.h>

#include "gpu/test_driver.hpp"

namespace penstock::gpu {
namespace {

TEST(Lanes, TakeTheHighestPriority) {
  ASSERT_TRUE(open_test_driver());
  const auto device = Device::current();
  ASSERT_TRUE(device) << device.error().message;
  const auto lanes = Lanes::make(*device);
  ASSERT_TRUE(lanes) << lanes.error().message;
  const Device::Scope scope(**device);
  const cuda::Driver& driver = (*device)->driver();
  int least = 0, greatest = 0;
  ASSERT_EQ(driver.context_priorities(&least, &greatest), cuda::success);
  ASSERT_LT(greatest, least);
  for (const Lane lane : both_lanes) {
    int priority = least;
    ASSERT_EQ(driver.stream_priority((*lanes)->stream(lane), &priority), cuda::success);
    EXPECT_EQ(priority, greatest);
  }
}

}  // namespace
}  // namespace penstock::gpu
