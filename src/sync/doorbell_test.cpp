#include <gmock/gmock.h>

#include <thread>

#include "sync/sync.hpp"
#include "sync/test_memory.hpp"

namespace penstock::sync {
namespace {

using testing::HasSubstr;

class DoorbellTest : public EachMode {};
INSTANTIATE_TEST_SUITE_P(Modes, DoorbellTest, both_modes(), mode_suffix);

TEST_P(DoorbellTest, SeesDataPublishedBeforeRing) {
  constexpr std::uint64_t rounds = 2000;
  Lines lines(3 * 64);
  void* data = lines.line(2);
  std::thread ringer([&] {
    Doorbell there(memory_, lines.line(0)), back(memory_, lines.line(1));
    for (std::uint64_t i = 1; i <= rounds; ++i) {
      memory_.publish_word(data, i * 7);
      there.ring(i);
      if (!back.wait(i, 20'000 * ms)) return;
    }
  });
  Doorbell there(memory_, lines.line(0)), back(memory_, lines.line(1));
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 1; i <= rounds; ++i) {
    auto rung = there.wait(i, 20'000 * ms);
    if (!rung) {
      ADD_FAILURE() << rung.error().message;
      break;
    }
    if (memory_.observe_word(data) != i * 7) ++wrong;
    back.ring(i);
  }
  ringer.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_P(DoorbellTest, LaterSequenceEndsEarlierWait) {
  Lines lines(64);
  Doorbell bell(memory_, lines.get());
  bell.ring(9);
  EXPECT_TRUE(bell.wait(3, 1 * ms));
  EXPECT_EQ(bell.read(), 9u);
}

TEST_P(DoorbellTest, DeadlineNamesTheSequences) {
  Lines lines(64);
  Doorbell bell(memory_, lines.get());
  bell.ring(4);
  auto waited = bell.wait(5, 5 * ms);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::deadline);
  EXPECT_THAT(waited.error().message, HasSubstr("sequence 5 awaited, 4 found"));
}

TEST_P(DoorbellTest, ADeadRingerEndsTheWait) {
  Lines lines(64);
  Doorbell bell(memory_, lines.get());
  auto waited = bell.wait(
      1, 30'000 * ms, [](std::uint64_t token) { return token != 77; }, 77);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::peer_dead);
}

TEST_P(DoorbellTest, ARingThatWasTheLastDeedCounts) {
  Lines lines(64);
  Doorbell bell(memory_, lines.get());
  // Rings inside the alive check: after the listener's last poll, before its verdict.
  auto dies_after_ringing = [&](std::uint64_t) {
    bell.ring(1);
    return false;
  };
  EXPECT_TRUE(bell.wait(1, 30'000 * ms, dies_after_ringing, 77));
}

}  // namespace
}  // namespace penstock::sync
