#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "penstock/sync.hpp"
#include "sync/test_memory.hpp"

namespace penstock::sync {
namespace {

class NamingTest : public EachMode {};
INSTANTIATE_TEST_SUITE_P(Modes, NamingTest, both_modes(), mode_suffix);

TEST_P(NamingTest, RacingContendersGetDifferentSmallNumbers) {
  constexpr std::uint32_t contenders = 4, grid_rows = 8;
  for (int round = 0; round < 100; ++round) {
    Lines grid(Naming::bytes(grid_rows));
    std::atomic<std::uint32_t> ready{0};
    std::vector<std::int64_t> numbers(contenders, -1);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < contenders; ++i) {
      threads.emplace_back([&, i] {
        Naming naming(memory_, grid.get(), grid_rows);
        ready.fetch_add(1);
        while (ready.load() < contenders) std::this_thread::yield();
        auto number = naming.claim(1000 + i);
        if (number) numbers[i] = *number;
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::set<std::int64_t> distinct(numbers.begin(), numbers.end());
    ASSERT_EQ(distinct.size(), contenders);
    EXPECT_GE(*distinct.begin(), 0);
    EXPECT_LT(*distinct.rbegin(), contenders * (contenders + 1) / 2);
  }
}

TEST_P(NamingTest, OneAfterTheOtherWalksRightUntilTheGridIsFull) {
  Lines grid(Naming::bytes(4));
  Naming naming(memory_, grid.get(), 4);
  EXPECT_EQ(naming.claim(11).value(), 0u);
  EXPECT_EQ(naming.claim(12).value(), 1u);
  EXPECT_EQ(naming.claim(13).value(), 3u);
  EXPECT_EQ(naming.claim(14).value(), 6u);
  EXPECT_EQ(naming.claim(15).error().code, Code::no_slots);
}

TEST_P(NamingTest, OneWhoDiedInASplitterTakesNobodysNumber) {
  Lines grid(Naming::bytes(3));
  memory_.publish_word(grid.line(0), 99);  // wrote X, then died
  Naming naming(memory_, grid.get(), 3);
  const std::uint32_t first = naming.claim(11).value();
  const std::uint32_t second = naming.claim(12).value();
  EXPECT_NE(first, second);
}

TEST_P(NamingTest, ZeroIsNoId) {
  Lines grid(Naming::bytes(2));
  EXPECT_EQ(Naming(memory_, grid.get(), 2).claim(0).error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace penstock::sync
