// Ranks whose endpoints have, one after another, the same slot of the pool.
#include <unistd.h>

#include <array>

#include "messages/test_messengers.hpp"

namespace penstock::messages {
namespace {

/// Rank 1 closes its messenger; that of rank 2, which opens later, gets its slot. Both are beyond
/// the first of their processes.
class Successors : public Messages {
 protected:
  Successors() { meet_ = false; }
  void TearDown() override {
    for (auto& messenger : more_) messenger.reset();
    Messages::TearDown();
  }
  void open(std::uint32_t rank) {
    auto opened = Messenger::open(*sides_[rank].arena, {.self = rank, .ranks = ranks});
    ASSERT_TRUE(opened) << opened.error().message;
    more_[rank] = std::move(*opened);
  }
  void replace() {
    const auto slot = more_[1]->address().slot;
    more_[1].reset();
    ASSERT_NO_FATAL_FAILURE(open(2));
    ASSERT_EQ(more_[2]->address().slot, slot);
  }
  void poll(int times = 6 * polls_to_check) {
    for (int i = 0; i < times; ++i)
      for (auto& messenger : more_)
        if (messenger != nullptr) messenger->progress();
  }
  void pass(std::uint32_t from, std::uint32_t to, std::uint64_t tag) {
    Request send, receive;
    more_[from]->send(to, tag, &value_, sizeof value_, send);
    more_[to]->receive(from, tag, &got_, sizeof got_, receive);
    for (int i = 0; i < 20 && !(send.done && receive.done); ++i) poll(polls_to_check);
    EXPECT_TRUE(send.done && send.result);
    ASSERT_TRUE(receive.done);
    EXPECT_TRUE(receive.result) << receive.result.error().message;
  }
  static constexpr int polls_to_check = 512;  // the endpoint's, from one check of peers to the next
  std::array<std::unique_ptr<Messenger>, ranks> more_;
  int value_ = 5, got_ = 0;
};

TEST_F(Successors, GetNoMessagesToTheRankBefore) {
  open(0);
  open(1);
  ASSERT_TRUE(more_[0]->meet(1, more_[1]->address()));
  pass(0, 1, 7);
  replace();
  ASSERT_TRUE(more_[0]->meet(2, more_[2]->address()));
  Request send, receive;
  more_[0]->send(1, 8, &value_, sizeof value_, send);
  more_[2]->receive(0, 8, &got_, sizeof got_, receive);
  poll();
  EXPECT_TRUE(send.done && !send.result) << "the send to rank 1 succeeded";
  EXPECT_FALSE(receive.done) << "rank 2 has the message to rank 1";
  EXPECT_TRUE(more_[2]->cancel(receive));
  pass(0, 2, 9);
}

/// Whether a check of the peers or a look for channels is the first to notice the replacement.
TEST_F(Successors, AreNotTakenForTheRankBefore) {
  for (int polls = polls_to_check - 32; polls < polls_to_check; ++polls) {
    open(0);
    open(1);
    ASSERT_TRUE(more_[0]->meet(1, more_[1]->address()));
    pass(0, 1, 7);
    for (int i = 0; i < polls; ++i) more_[0]->progress();
    replace();
    ASSERT_TRUE(more_[2]->meet(0, more_[0]->address()));
    usleep(21'000);  // the next check is due
    Request first;
    more_[2]->send(0, 8, &value_, sizeof value_, first);
    poll();
    SCOPED_TRACE(polls);
    ASSERT_NO_FATAL_FAILURE(pass(2, 0, 9));
    for (auto& messenger : more_) messenger.reset();
  }
}

}  // namespace
}  // namespace penstock::messages
