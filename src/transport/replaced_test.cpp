// Endpoints that end unnoticed while their slot or their channels' memory gets a new owner.
#include <atomic>
#include <thread>

#include "base/environment_guard.hpp"
#include "transport/settings.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

class ReplacedTest : public TransportTest {};

TEST_P(ReplacedTest, AnAnswerIsForWhoAskedNotForWhoHasItsNumberNow) {
  auto data = pattern(8, 1);
  SendOp question = op_of(data, 1), late = op_of(data, 2), answer = op_of(data, 3);
  ASSERT_TRUE(a_->send(to_b_, &question));
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
  progress_until([&] { return a_->drained(); });
  const std::uint32_t asked = b_->sender_generation(to_a_);
  a_.reset();
  a_ = open(side_a_, callbacks_a_);
  ASSERT_EQ(a_->address().slot, to_a_);
  to_b_ = *a_->resolve(b_->address());
  ASSERT_TRUE(a_->send(to_b_, &question));
  progress_until([&] { return callbacks_b_.arrived.size() == 2; });
  const auto refused = b_->answer(to_a_, asked, &late);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_found);
  ASSERT_TRUE(b_->answer(to_a_, b_->sender_generation(to_a_), &answer));
  progress_until([&] { return !callbacks_a_.arrived.empty(); });
  EXPECT_EQ(callbacks_a_.arrived[0].header.tag, 3u);
}

TEST_P(ReplacedTest, WhoWasReplacedBeforeItWasMissedIsStillToldOf) {
  auto data = pattern(8 << 20, 1), few = pattern(8, 2);
  SendOp lost = op_of(data, 1), hello = op_of(few, 2);
  lost.notify_delivered = true;
  for (int i = 0; i < 2000; ++i) {  // the next look at the peers is some time away
    a_->progress();
    b_->progress();
  }
  ASSERT_FALSE(*a_->send(to_b_, &lost));
  const auto slot = b_->address().slot;
  b_.reset();
  b_ = open(side_b_, callbacks_b_);
  ASSERT_EQ(b_->address().slot, slot);
  to_a_ = *b_->resolve(a_->address());
  ASSERT_TRUE(b_->send(to_a_, &hello));
  progress_until([&] { return callbacks_a_.arrived.size() == 1; });
  progress_until([&] { return callbacks_a_.failed.size() == 1; });
  EXPECT_EQ(callbacks_a_.dead.size(), 1u);
}

/// An endpoint that closes in the midst of a message gives its channel's memory back.
TEST_P(ReplacedTest, NobodyStoresToTheChannelOfWhoClosedInTheMidstOfAMessage) {
  base::EnvironmentGuard cells("PENSTOCK_CELLS", "128");  // else one poll takes all of them
  a_.reset();
  a_ = open(side_a_, callbacks_a_);
  to_b_ = *a_->resolve(b_->address());
  auto data = pattern(8 << 20, 1);
  SendOp half = op_of(data, 1);
  ASSERT_FALSE(*a_->send(to_b_, &half));
  while (callbacks_b_.begun == 0) b_->progress();
  std::atomic<bool> closed = false, polls = true;
  std::jthread receiver([&] {
    while (!closed) b_->progress();
    polls = false;
  });
  a_.reset();
  closed = true;
  while (polls) std::this_thread::yield();
  const auto free = side_a_.arena->stats().bytes_largest_free;
  auto taken = side_a_.arena->create("of another", free - 4096, {.zero = false});
  ASSERT_TRUE(taken) << taken.error().message;
  const auto& memory = side_a_.pool->memory();
  std::vector<std::byte> before(taken->bytes), after(taken->bytes);
  memory.observe_bulk(before.data(), taken->data, before.size());
  for (int i = 0; i < 300; ++i) b_->progress();
  memory.observe_bulk(after.data(), taken->data, after.size());
  EXPECT_TRUE(before == after) << "lines of an object of somebody else were stored to";
  EXPECT_EQ(callbacks_b_.errors.size(), 1u) << "the half received";
}

/// The cells are full when it closes: the first of them is still another message's.
TEST_P(ReplacedTest, WhatWasCompleteBeforeTheOneThatIsBrokenOffArrives) {
  base::EnvironmentGuard cells("PENSTOCK_CELLS", "32");
  a_.reset();
  a_ = open(side_a_, callbacks_a_);
  to_b_ = *a_->resolve(b_->address());
  const Settings settings = *settings_for(GetParam());
  auto one = pattern((settings.cell_count - 2) * settings.cell_bytes, 1),
       two = pattern(one.size(), 2);
  SendOp complete = op_of(one, 1), half = op_of(two, 2);
  ASSERT_TRUE(*a_->send(to_b_, &complete));
  ASSERT_FALSE(*a_->send(to_b_, &half));
  std::atomic<bool> closed = false;
  std::jthread closing([&] {
    a_.reset();
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  while (!closed) b_->progress();
  ASSERT_EQ(callbacks_b_.arrived.size(), 1u) << "its sender was told that it is sent";
  EXPECT_TRUE(callbacks_b_.arrived[0].payload == one);
}

INSTANTIATE_TEST_SUITE_P(Modes, ReplacedTest,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software,
                                         coherence::Mode::uncached),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport
