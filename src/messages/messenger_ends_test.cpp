// Ranks that end before anybody has heard of them, and those whose address comes late.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>

#include "base/fork_in_tests.hpp"
#include "messages/test_messengers.hpp"

namespace penstock::messages {
namespace {

using testing::HasSubstr;

class Strangers : public Messages {
 protected:
  Strangers() { meet_ = false; }
  std::uint64_t token_of(std::uint32_t rank) { return sides_[rank].pool->token(); }
  void leave(std::uint32_t rank) {
    of_[rank].reset();
    sides_[rank].detach();
  }
  void expect_all() {
    for (std::uint32_t rank = 1; rank < ranks; ++rank)
      ASSERT_TRUE(of_[0]->expect(rank, token_of(rank)));
  }
  int value_ = 5, got_ = 0;
};

TEST_F(Strangers, ReceivesFailWhenTheirRankHasLeft) {
  expect_all();
  Request of_one, of_two, later;
  of_[0]->receive(1, 7, &got_, sizeof got_, of_one);
  of_[0]->receive(2, 7, &got_, sizeof got_, of_two);
  leave(1);
  finish(of_one);
  ASSERT_FALSE(of_one.result);
  EXPECT_EQ(of_one.result.error().code, ErrorCode::peer_dead);
  EXPECT_THAT(of_one.result.error().message, HasSubstr("rank 1 of the group, rank 1 (pid"));
  EXPECT_FALSE(of_two.done);
  of_[0]->receive(1, 8, &got_, sizeof got_, later);
  EXPECT_TRUE(later.done && !later.result);
  EXPECT_TRUE(of_[0]->cancel(of_two));
}

TEST_F(Strangers, ReceivesFailWhenTheirRankWasKilled) {
  base::skip_unless_fork_is_followed();
  if (IsSkipped()) return;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto side = transport::attach(spec_, 9);
    const std::uint64_t token = side.pool->token();
    if (write(ends[1], &token, sizeof token) != sizeof token) _exit(1);
    pause();
    _exit(0);
  }
  std::uint64_t token = 0;
  ASSERT_EQ(read(ends[0], &token, sizeof token), static_cast<ssize_t>(sizeof token));
  for (const int end : ends) close(end);
  ASSERT_TRUE(of_[0]->expect(1, token));
  Request receive, send;
  of_[0]->receive(1, 7, &got_, sizeof got_, receive);
  of_[0]->send(1, 7, &value_, sizeof value_, send);
  let_them_go_on();
  EXPECT_FALSE(receive.done || send.done);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  finish(receive);
  finish(send);
  for (const Request* request : {&receive, &send}) {
    ASSERT_FALSE(request->result);
    EXPECT_THAT(request->result.error().message, HasSubstr("has died or left"));
  }
}

TEST_F(Strangers, MessagesOfALeftRankAreReceivedFirst) {
  expect_all();
  std::array<Request, 3> sent, received;
  ASSERT_TRUE(of_[1]->meet(0, of_[0]->address()));
  for (Request& request : sent) of_[1]->send(0, 7, &value_, sizeof value_, request);
  leave(1);
  Request never;
  for (Request& request : received) {
    of_[0]->receive(1, 7, &got_, sizeof got_, request);
    finish(request);
    EXPECT_TRUE(request.result) << request.result.error().message;
  }
  EXPECT_EQ(got_, value_);
  of_[0]->receive(1, 7, &got_, sizeof got_, never);
  finish(never);
  EXPECT_FALSE(never.result);
}

TEST_F(Strangers, ReceivesFromAnyFailAfterTheLastRank) {
  expect_all();
  Request any, later;
  of_[0]->receive(any_rank, 1ull << 40, &got_, sizeof got_, any);
  leave(1);
  const std::uint64_t until = base::now_ns() + 2'000'000'000;
  while (base::now_ns() < until) progress();
  EXPECT_FALSE(any.done);
  leave(2);
  finish(any);
  ASSERT_FALSE(any.result);
  EXPECT_THAT(any.result.error().message, HasSubstr("any rank, all others are gone: rank 2"));
  of_[0]->receive(any_rank, 3, &got_, sizeof got_, later);
  EXPECT_TRUE(later.done && !later.result);
}

TEST_F(Strangers, SendsWaitForTheAddressInOrder) {
  std::array<int, 4> data{1, 2, 3, 4}, got{};
  std::array<Request, 4> sent, received;
  for (std::size_t i = 0; i < 3; ++i) of_[0]->send(1, 7, &data[i], sizeof(int), sent[i]);
  EXPECT_TRUE(of_[0]->busy());
  EXPECT_TRUE(of_[0]->cancel(sent[1]));
  ASSERT_TRUE(of_[0]->meet(1, of_[1]->address()));
  of_[0]->send(1, 7, &data[3], sizeof(int), sent[3]);
  for (std::size_t i = 0; i < 3; ++i) {
    of_[1]->receive(0, 7, &got[i], sizeof(int), received[i]);
    finish(received[i]);
  }
  EXPECT_THAT(got, testing::ElementsAre(1, 3, 4, 0));
  for (const std::size_t i : {0u, 2u, 3u}) finish(sent[i]);
  EXPECT_FALSE(of_[0]->busy());
}

TEST_F(Strangers, SendsFailIfTheAddressIsBad) {
  const transport::Address closed = of_[1]->address();
  of_[1].reset();
  Request send;
  of_[0]->send(1, 7, &value_, sizeof value_, send);
  EXPECT_FALSE(of_[0]->meet(1, closed));
  ASSERT_TRUE(send.done);
  EXPECT_EQ(send.result.error().code, ErrorCode::not_found);
  EXPECT_FALSE(of_[0]->busy());
}

}  // namespace
}  // namespace penstock::messages
