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

TEST_P(RenamingTest, RacingContendersGetDifferentNumbers) {
  constexpr std::uint32_t contenders = 4, doors = 32;
  for (int round = 0; round < 100; ++round) {
    Lines lines(Renaming::bytes(doors));
    std::atomic<std::uint32_t> ready{0};
    std::vector<std::int64_t> numbers(contenders, -1);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < contenders; ++i) {
      threads.emplace_back([&, i] {
        Renaming renaming(memory_, lines.get(), doors);
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
    EXPECT_LT(*distinct.rbegin(), doors);
  }
}

TEST_P(RenamingTest, GivesEachCallerDoorUntilAllHeld) {
  Lines lines(Renaming::bytes(4));
  const Renaming renaming(memory_, lines.get(), 4);
  std::set<std::uint32_t> numbers;
  for (std::uint64_t id = 11; id < 15; ++id) numbers.insert(renaming.claim(id).value());
  EXPECT_EQ(numbers, (std::set<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(renaming.claim(15).error().code, ErrorCode::no_slots);
  const std::uint64_t id = renaming.shut_by()[2];
  renaming.leave(2, id);
  EXPECT_EQ(renaming.shut_by()[2], id);
  EXPECT_EQ(renaming.claim(16).error().code, ErrorCode::no_slots) << "it is not open yet";
  renaming.open(2);
  EXPECT_EQ(renaming.claim(17).value(), 2u);
  EXPECT_EQ(renaming.shut_by()[2], 17u);
}

TEST_P(RenamingTest, DeathAtDoorTakesNoNumber) {
  Lines lines(Renaming::bytes(3));
  for (int door = 0; door < 3; ++door) memory_.publish_word(lines.line(2 * door), 99);  // X
  const Renaming renaming(memory_, lines.get(), 3);
  const std::uint32_t first = renaming.claim(11).value();
  const std::uint32_t second = renaming.claim(12).value();
  EXPECT_NE(first, second);
}

TEST_P(RenamingTest, ZeroIsNoId) {
  Lines lines(Renaming::bytes(2));
  EXPECT_EQ(Renaming(memory_, lines.get(), 2).claim(0).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace penstock::sync
