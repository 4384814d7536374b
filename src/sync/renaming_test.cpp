#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "sync/sync.hpp"
#include "sync/test_memory.hpp"

namespace penstock::sync {
namespace {

class RenamingTest : public EachMode {};
INSTANTIATE_TEST_SUITE_P(Modes, RenamingTest, both_modes(), mode_suffix);

TEST_P(RenamingTest, RacingContendersGetDifferentSmallNumbers) {
  constexpr std::uint32_t contenders = 4, grid_rows = 8;
  for (int round = 0; round < 100; ++round) {
    Lines grid(Renaming::bytes(grid_rows));
    std::atomic<std::uint32_t> ready{0};
    std::vector<std::int64_t> numbers(contenders, -1);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < contenders; ++i) {
      threads.emplace_back([&, i] {
        Renaming renaming(memory_, grid.get(), grid_rows);
        ready.fetch_add(1);
        while (ready.load() < contenders) std::this_thread::yield();
        auto number = renaming.claim(1000 + i);
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

TEST_P(RenamingTest, OneAfterTheOtherWalksRightUntilTheGridIsFull) {
  Lines grid(Renaming::bytes(4));
  Renaming renaming(memory_, grid.get(), 4);
  EXPECT_EQ(renaming.claim(11).value(), 0u);
  EXPECT_EQ(renaming.claim(12).value(), 1u);
  EXPECT_EQ(renaming.claim(13).value(), 3u);
  EXPECT_EQ(renaming.claim(14).value(), 6u);
  EXPECT_EQ(renaming.claim(15).error().code, ErrorCode::no_slots);
}

TEST_P(RenamingTest, OneWhoDiedInASplitterTakesNobodysNumber) {
  Lines grid(Renaming::bytes(3));
  memory_.publish_word(grid.line(0), 99);  // wrote X, then died
  Renaming renaming(memory_, grid.get(), 3);
  const std::uint32_t first = renaming.claim(11).value();
  const std::uint32_t second = renaming.claim(12).value();
  EXPECT_NE(first, second);
}

TEST_P(RenamingTest, ZeroIsNoId) {
  Lines grid(Renaming::bytes(2));
  EXPECT_EQ(Renaming(memory_, grid.get(), 2).claim(0).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace penstock::sync
