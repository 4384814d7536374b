// Endpoints that end unnoticed while their slot or their channels' memory gets a new owner.
#include <atomic>
#include <thread>

#include "base/environment_guard.hpp"
#include "transport/settings.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

class ReplacedTest : public TransportTest {};

class ReplacedOnTwoNodesTest : public TransportTest {
 protected:
  ReplacedOnTwoNodesTest() { nodes_ = 2; }
};

TEST_P(ReplacedTest, RefusesAnswerToNewOwnerOfSlot) {
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

TEST_P(ReplacedTest, ReportsPeerReplacedBeforeNoticed) {
  auto data = pattern(8 << 20, 1), few = pattern(8, 2);
  SendOp lost = op_of(data, 1), hello = op_of(few, 2);
  lost.notify_delivered = true;
  for (int i = 0; i < 2000; ++i) {  // the next check of the peers is some time away
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

/// An endpoint that closes in the middle of a message frees its channel's memory.
TEST_P(ReplacedTest, StoresNothingAfterSenderClosesMidMessage) {
  base::EnvironmentItems cells("PENSTOCK_CHANNELS",
                               "cells=128");  // otherwise one poll takes all of them
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

/// The cells are full at the close; the first of them still holds another message.
TEST_P(ReplacedTest, DeliversMessagesBeforeBrokenOffOne) {
  base::EnvironmentItems cells("PENSTOCK_CHANNELS", "cells=32");
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

/// The last word that the receiver has processed is still that of an earlier endpoint, since the
/// new owner has moved; and the channel that this word names is unchanged.
TEST_P(ReplacedOnTwoNodesTest, DoesNotReopenPredecessorsChannel) {
  constexpr std::uint64_t calls_to_check = 512, words = 20;
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=16");
  Recorder callbacks_c;
  const auto c = open(side_b_, callbacks_c);
  for (std::uint64_t calls_before = 0; calls_before < 16; ++calls_before) {
    a_.reset();
    b_.reset();
    callbacks_b_.arrived.clear();
    callbacks_c.arrived.clear();
    a_ = open(side_a_, callbacks_a_);
    b_ = open(side_b_, callbacks_b_);
    std::uint64_t calls = 0;
    for (; calls < calls_before; ++calls) b_->progress();
    to_b_ = *a_->resolve(b_->address());
    ASSERT_TRUE(*a_->try_inject(*a_->resolve(c->address()), {}, nullptr));  // occupies the front
    ASSERT_TRUE(*a_->try_inject(to_b_, {.tag = 1000}, nullptr));
    for (int i = 0; i < 200 || callbacks_c.arrived.empty(); ++i) c->progress();
    for (; calls < calls_to_check - 1; ++calls) b_->progress();
    ASSERT_EQ(callbacks_b_.arrived.size(), 1u);
    a_.reset();
    a_ = open(side_a_, callbacks_a_);
    to_b_ = *a_->resolve(b_->address());
    for (std::uint64_t tag = 0; tag < words; ++tag)
      ASSERT_TRUE(*a_->try_inject(to_b_, {.tag = tag}, nullptr));
    for (int i = 0; i < 4000; ++i) b_->progress();
    ASSERT_EQ(callbacks_b_.arrived.size(), 1 + words) << calls_before;
    for (std::uint64_t tag = 0; tag < words; ++tag)
      ASSERT_EQ(callbacks_b_.arrived[1 + tag].header.tag, tag);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ReplacedTest,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software,
                                         coherence::Mode::uncached),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

INSTANTIATE_TEST_SUITE_P(Modes, ReplacedOnTwoNodesTest,
                         testing::Values(coherence::Mode::software, coherence::Mode::uncached),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport
