#include "base/pace.hpp"

#include <gtest/gtest.h>

#include "base/clock.hpp"

namespace penstock::base {
namespace {

/// Returns how many looks a wait of `ns` makes, each of which reads `lines`.
std::uint64_t looks_in(Pace& pace, std::uint64_t ns, std::uint64_t lines) {
  std::uint64_t looks = 0;
  for (const std::uint64_t end = now_ns() + ns; now_ns() < end;) {
    if (!pace.due()) continue;
    ++looks;
    pace.looked(lines);
  }
  return looks;
}

TEST(Pace, looks_are_always_due_at_first) {
  Pace pace;
  for (int look = 0; look < 63; ++look) {
    EXPECT_TRUE(pace.due());
    pace.looked(1000);
  }
  EXPECT_FALSE(pace.slow());
}

TEST(Pace, long_waits_read_little) {
  Pace pace;
  looks_in(pace, 30'000'000,
           1);  // after that time an eighth of it is longer than 8 lines may take
  ASSERT_TRUE(pace.slow());
  constexpr std::uint64_t ns = 40'000'000, lines = 8;
  const std::uint64_t limit = Pace::reads_a_second * ns / 1'000'000'000;
  EXPECT_LE(lines * looks_in(pace, ns, lines), limit + 2 * lines);
}

TEST(Pace, looks_that_read_nothing_are_always_due) {
  Pace pace;
  constexpr std::uint64_t patience_ns = 10'000'000'000;  // another process may have the core
  for (const std::uint64_t end = now_ns() + patience_ns; !pace.slow() && now_ns() < end;)
    pace.looked(0);
  ASSERT_TRUE(pace.slow());
  pace.looked(0);
  EXPECT_TRUE(pace.due());
}

TEST(Pace, what_takes_long_yet_is_looked_at_later) {
  Pace pace;
  const std::uint64_t begun = now_ns();
  pace.not_before(3'600'000'000'000);
  while (!pace.due()) {
  }
  EXPECT_GE(now_ns() - begun, Pace::longest_ns);  // and not far longer than the longest step
  pace.reset();
  EXPECT_TRUE(pace.due());
}

TEST(Pace, what_comes_makes_it_quick_again) {
  Pace pace;
  looks_in(pace, 10'000'000, 1);
  pace.looked(100);
  EXPECT_FALSE(pace.due());
  pace.reset();
  EXPECT_TRUE(pace.due());
  EXPECT_FALSE(pace.slow());
}

}  // namespace
}  // namespace penstock::base
