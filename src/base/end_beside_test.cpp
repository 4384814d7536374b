#include "base/end_beside.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

namespace penstock::base {
namespace {

using namespace std::chrono_literals;

TEST(EndBeside, WaitsForAnEndThatRuns) {
  std::atomic<bool> ended{false};
  end_beside(
      "ends", [&] { ended = true; }, 1h);
  EXPECT_TRUE(ended);
}

TEST(EndBeside, LeavesAnEndThatMustWait) {
  const auto may_end = std::make_shared<std::promise<void>>();
  const auto has_ended = std::make_shared<std::promise<void>>();
  end_beside(
      "waits",
      [may_end, has_ended] {
        may_end->get_future().wait();
        has_ended->set_value();
      },
      1ms);
  may_end->set_value();
  has_ended->get_future().wait();
}

}  // namespace
}  // namespace penstock::base
