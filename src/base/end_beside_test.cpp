#include "base/end_beside.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace penstock::base {
namespace {

using namespace std::chrono_literals;

TEST(EndBeside, AwaitsEndsThatRun) {
  std::atomic<int> ended{0};
  for (int i = 0; i < 2; ++i) end_beside("ends", [&] { ++ended; });
  EXPECT_TRUE(await_ends(1h));
  EXPECT_EQ(ended, 2);
}

TEST(EndBeside, LeavesAnEndThatMustWait) {
  std::promise<void> may_end;
  end_beside("waits", [&] { may_end.get_future().wait(); });
  EXPECT_FALSE(await_ends(1ms));
  may_end.set_value();
  EXPECT_TRUE(await_ends(1h));
}

}  // namespace
}  // namespace penstock::base
