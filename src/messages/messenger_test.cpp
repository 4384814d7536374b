#include "messages/messenger.hpp"

#include <gmock/gmock.h>

#include <array>
#include <deque>
#include <random>
#include <thread>

#include "base/environment_guard.hpp"
#include "messages/test_messengers.hpp"

namespace penstock::messages {
namespace {

using testing::HasSubstr;
using transport::pattern;

/// One thread closes one messenger after the other, as in a program of one process; those that are
/// still open make no progress.
TEST_F(Messages, EndsAtOnceIfAllWasReceived) {
  for (const std::uint64_t bytes : {1u, 5000u, 3'000'000u}) {
    for (const bool early : {false, true}) {
      const auto data = pattern(bytes, 3);
      std::vector<std::byte> got(bytes);
      Request sent, received;
      if (early) of_[1]->receive(0, 9, got.data(), got.size(), received);
      of_[0]->send(1, 9, data.data(), data.size(), sent);
      if (!early) let_them_go_on();
      if (!early) of_[1]->receive(0, 9, got.data(), got.size(), received);
      finish(sent);
      finish(received);
    }
  }
  testing::internal::CaptureStderr();
  of_.clear();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Messages, ComeBeforeAndAfterTheirReceives) {
  for (const std::uint64_t bytes : {0u, 1u, 56u, 5000u, 3'000'000u}) {
    for (const bool early : {false, true}) {
      const auto data = pattern(bytes, 3);
      std::vector<std::byte> got(bytes);
      Request sent, received;
      if (early) of_[1]->receive(0, 9, got.data(), got.size(), received);
      EXPECT_EQ(received.bytes, 0u) << "it has met no message";
      of_[0]->send(1, 9, data.data(), data.size(), sent);
      if (!early) {
        let_them_go_on();
        of_[1]->receive(any_rank, 9, got.data(), got.size(), received);
      }
      finish(sent);
      finish(received);
      ASSERT_TRUE(received.result) << received.result.error().message;
      EXPECT_EQ(got, data);
      EXPECT_EQ(received.source, 0u);
      EXPECT_EQ(received.bytes, bytes);
    }
  }
}

TEST_F(Messages, AreToldApartByRankAndTag) {
  int one = 1, two = 2, three = 3, from_two = 0, tagged = 0, first = 0;
  Request sent[3], got[3];
  of_[0]->receive(2, 5, &from_two, sizeof(int), got[0]);
  of_[0]->receive(1, 6, &tagged, sizeof(int), got[1]);
  of_[0]->receive(1, 5, &first, sizeof(int), got[2]);
  of_[1]->send(0, 5, &one, sizeof(int), sent[0]);
  of_[1]->send(0, 6, &two, sizeof(int), sent[1]);
  of_[2]->send(0, 5, &three, sizeof(int), sent[2]);
  for (const Request& request : got) finish(request);
  EXPECT_EQ(from_two, 3);
  EXPECT_EQ(tagged, 2);
  EXPECT_EQ(first, 1);
}

TEST_F(Messages, OfARankAndTagComeInOrder) {
  constexpr int count = 200;
  std::mt19937 random(7);
  std::vector<std::vector<std::byte>> data(count), got(count);
  std::vector<Request> sent(count), received(count);
  for (int i = 0; i < count; ++i) {
    data[i] = pattern(random() % 3 == 0 ? random() % 100'000 : random() % 100, i);
    of_[0]->send(1, 1, data[i].data(), data[i].size(), sent[i]);
    if (i % 2 == 0) progress();
  }
  for (int i = 0; i < count; ++i) {
    got[i].resize(data[i].size());
    of_[1]->receive(0, 1, got[i].data(), got[i].size(), received[i]);
    if (i % 3 == 0) progress();
  }
  for (int i = 0; i < count; ++i) finish(received[i]);
  EXPECT_EQ(got, data);
  for (const Request& request : sent) finish(request);
}

TEST_F(Messages, LeaveNothingInThePoolWhenIdle) {
  int data = 7, got = 0;
  Request sent, received;
  of_[1]->receive(0, 1, &got, sizeof got, received);
  of_[0]->send(1, 1, &data, sizeof data, sent);
  finish(received);
  finish(sent);
  of_[1]->progress();  // the last call before it rests
  const std::string memory = "penstock.tx." + std::to_string(of_[0]->address().slot) + ".";
  of_[0].reset();
  for (const auto& object : sides_[1].arena->list()) EXPECT_FALSE(object.name.starts_with(memory));
}

TEST_F(Messages, CanBeTakenWhenTheirSenderHasClosed) {
  const auto data = pattern(3'000, 1);
  std::vector<std::byte> got(data.size());
  Request sent, received;
  of_[0]->send(1, 1, data.data(), data.size(), sent);
  ASSERT_TRUE(sent.done);
  of_[0].reset();
  of_[1]->receive(0, 1, got.data(), got.size(), received);
  finish(received);
  EXPECT_TRUE(received.result);
  EXPECT_EQ(got, data);
}

TEST_F(Messages, TooLongAreCutAndSaidSo) {
  for (const std::uint64_t bytes : {20u, 50'000u}) {
    for (const bool early : {false, true}) {
      const auto data = pattern(bytes, 1);
      std::vector<std::byte> got(17, std::byte{9});
      Request sent, received;
      if (early) of_[1]->receive(0, 2, got.data(), 16, received);
      of_[0]->send(1, 2, data.data(), bytes, sent);
      if (!early) {
        let_them_go_on();
        of_[1]->receive(0, 2, got.data(), 16, received);
      }
      finish(received);
      finish(sent);
      ASSERT_FALSE(received.result);
      EXPECT_THAT(received.result.error().message, HasSubstr("has room for 16"));
      EXPECT_EQ(got[16], std::byte{9});
    }
  }
}

TEST_F(Messages, LongOnesWaitForReceiveIfAsked) {
  constexpr std::uint64_t short_bytes = 4096, long_bytes = 1 << 20;
  auto asked = Messenger::open(*sides_[1].arena,
                               {.self = 1, .ranks = ranks, .longest_unasked = short_bytes});
  ASSERT_TRUE(asked);
  of_[1] = *std::move(asked);
  ASSERT_TRUE(of_[1]->meet(0, of_[0]->address()));
  const auto small = pattern(short_bytes, 1), large = pattern(long_bytes, 2);
  std::array<Request, 3> sent, received;
  of_[1]->send(0, 7, small.data(), short_bytes, sent[0]);
  of_[1]->send(0, 7, large.data(), long_bytes, sent[1]);
  of_[1]->send(0, 7, small.data(), short_bytes, sent[2]);
  let_them_go_on();
  EXPECT_TRUE(sent[0].done);
  EXPECT_FALSE(sent[1].done);
  EXPECT_LT(of_[0]->peak_unexpected_bytes(), long_bytes);
  std::array<std::vector<std::byte>, 3> got;
  for (std::size_t i = 0; i < got.size(); ++i) {
    got[i].resize(long_bytes);
    of_[0]->receive(1, 7, got[i].data(), long_bytes, received[i]);
  }
  for (const Request& request : received) finish(request);
  for (const Request& request : sent) finish(request);
  EXPECT_EQ(received[0].bytes, short_bytes);
  EXPECT_EQ(received[1].bytes, long_bytes);
  EXPECT_EQ(received[2].bytes, short_bytes);
  EXPECT_EQ(got[1], large);
  EXPECT_LT(of_[0]->peak_unexpected_bytes(), long_bytes);
}

TEST_F(Messages, AreTakenBack) {
  int value = 0;
  Request receive, send;
  of_[0]->receive(1, 3, &value, sizeof value, receive);
  EXPECT_TRUE(of_[0]->busy());
  EXPECT_TRUE(of_[0]->cancel(receive));
  EXPECT_FALSE(of_[0]->busy());
  of_[0]->send(9, 3, &value, sizeof value, send);
  ASSERT_TRUE(send.done);
  EXPECT_FALSE(send.result);
  EXPECT_FALSE(of_[0]->meet(9, of_[1]->address()));
  EXPECT_FALSE(of_[0]->knows(9));
}

TEST_F(Messages, OfWhoHasLeftAreNotAwaited) {
  int value = 4, got = 0;
  Request sent, came, never, late;
  of_[1]->send(0, 3, &value, sizeof value, sent);
  of_[0]->receive(1, 8, &got, sizeof got, never);
  finish(sent);
  let_them_go_on();
  std::thread closing([leaving = std::move(of_[1])]() mutable { leaving.reset(); });
  finish(never);
  closing.join();
  ASSERT_FALSE(never.result);
  EXPECT_THAT(never.result.error().message, HasSubstr("1) left"));
  of_[0]->receive(1, 3, &got, sizeof got, came);
  finish(came);
  EXPECT_TRUE(came.result);
  EXPECT_EQ(got, 4);
  of_[0]->receive(1, 3, &got, sizeof got, late);
  finish(late);
  EXPECT_FALSE(late.result);
}

/// A rank that has left is not forgotten when another rank gets its place in the pool.
TEST_F(Messages, ReceivesFailAfterSendersSlotIsReused) {
  for (const bool noticed_first : {true, false}) {
    const transport::Address left = of_[1]->address();
    of_[1].reset();
    if (noticed_first) let_them_go_on();
    of_[2].reset();
    auto opened = Messenger::open(*sides_[1].arena, {.self = 2, .ranks = ranks});
    ASSERT_TRUE(opened);
    of_[2] = std::move(*opened);
    ASSERT_EQ(of_[2]->address().slot, left.slot);
    ASSERT_TRUE(of_[0]->meet(2, of_[2]->address()));
    int got = 0;
    Request of_left;
    of_[0]->receive(1, 3, &got, sizeof got, of_left);
    finish(of_left);
    ASSERT_FALSE(of_left.result);
    EXPECT_THAT(of_left.result.error().message, HasSubstr("rank 1"));
    TearDown();
    sides_.clear();
    SetUp();
  }
}

// ---- floods ------------------------------------------------------------------------------------

constexpr std::uint64_t limit = 256 << 10;
/// Bytes that one sender has in flight when it is told: a ring and its cells, with the overhead of
/// keeping them.
constexpr std::uint64_t on_its_way = 1 << 20;

class Floods : public Messages {
 protected:
  struct Flow {
    std::uint32_t from, to;
    std::vector<std::vector<std::byte>> data, got;
    std::vector<Request> sent, received;
  };
  /// `bytes_of` gives a message's length by its number; each has a tag of its own, or all share
  /// one.
  template <class BytesOf>
  Flow& send(std::uint32_t from, std::uint32_t to, std::size_t count, BytesOf&& bytes_of,
             bool one_tag = false) {
    Flow& flow = flows_.emplace_back(Flow{from, to, {}, {}, {}, {}});
    flow.sent.resize(count);
    flow.received.resize(count);
    flow.got.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      flow.data.push_back(pattern(bytes_of(i), static_cast<std::uint32_t>(i + from)));
    for (std::size_t i = 0; i < count; ++i) {
      of_[from]->send(to, one_tag ? 1 : i, flow.data[i].data(), flow.data[i].size(), flow.sent[i]);
      if (i % 16 == 0) progress();
    }
    return flow;
  }
  void receive(Flow& flow, std::size_t i, std::uint64_t tag) {
    flow.got[i].resize(flow.data[i].size());
    of_[flow.to]->receive(flow.from, tag, flow.got[i].data(), flow.got[i].size(), flow.received[i]);
  }
  void receive_in_reverse(Flow& flow) {
    for (std::size_t i = flow.data.size(); i-- > 0;) receive(flow, i, i);
  }
  void expect_all(Flow& flow) {
    for (std::size_t i = 0; i < flow.data.size(); ++i) {
      finish(flow.received[i]);
      finish(flow.sent[i]);
      ASSERT_TRUE(flow.received[i].result) << flow.received[i].result.error().message;
      ASSERT_TRUE(flow.sent[i].result) << flow.sent[i].result.error().message;
      ASSERT_EQ(flow.got[i], flow.data[i]) << i;
    }
  }

  base::EnvironmentGuard bound_{"PENSTOCK_UNEXPECTED_BYTES", "256K"};
  std::deque<Flow> flows_;
};

TEST_F(Floods, StayWithSendersThatSendMutually) {
  for (const std::size_t bytes : {20u, 3000u, 30'000u}) {
    const std::size_t count = bytes > 10'000 ? 200 : 2000;
    Flow& there = send(0, 1, count, [&](std::size_t i) { return bytes + i % 5; });
    Flow& back = send(1, 0, count, [&](std::size_t i) { return bytes + i % 5; });
    let_them_go_on();
    receive_in_reverse(there);
    receive_in_reverse(back);
    expect_all(there);
    expect_all(back);
    for (const std::uint32_t rank : {0u, 1u})
      EXPECT_LE(of_[rank]->peak_unexpected_bytes(), limit + on_its_way) << bytes;
  }
}

TEST_F(Floods, OfTwoToOneStayWithThem) {
  constexpr std::size_t count = 1500;
  Flow& of_one = send(1, 0, count, [](std::size_t) { return 2000; });
  Flow& of_two = send(2, 0, count, [](std::size_t) { return 2000; });
  let_them_go_on();
  EXPECT_LE(of_[0]->peak_unexpected_bytes(), limit + 2 * on_its_way);
  EXPECT_FALSE(of_one.sent.back().done) << "nothing has stayed";
  receive_in_reverse(of_two);
  receive_in_reverse(of_one);
  expect_all(of_one);
  expect_all(of_two);
}

TEST_F(Floods, KeepOrderOfTagForAllLengths) {
  constexpr std::size_t count = 1000;
  const auto bytes_of = [](std::size_t i) {
    return i % 7 == 3 ? 40'000u : i % 3 == 0 ? 3000u : 20u;
  };
  Flow& flow = send(0, 1, count, bytes_of, true);
  let_them_go_on();
  for (std::size_t i = 0; i < count; ++i) receive(flow, i, 1);
  expect_all(flow);
}

TEST_F(Floods, AreTakenBackAndTheRestComes) {
  constexpr std::size_t count = 1000;
  Flow& flow = send(0, 1, count, [](std::size_t) { return 3000; });
  let_them_go_on();
  std::vector<bool> taken_back(count);
  std::size_t number = 0;
  for (std::size_t i = 0; i < count; i += 2) {
    taken_back[i] = !flow.sent[i].done && of_[0]->cancel(flow.sent[i]);
    number += taken_back[i];
  }
  EXPECT_GT(number, 200u);
  for (std::size_t i = count; i-- > 0;)
    if (!taken_back[i]) receive(flow, i, i);
  for (std::size_t i = 0; i < count; ++i) {
    if (taken_back[i]) continue;
    finish(flow.received[i]);
    finish(flow.sent[i]);
    ASSERT_EQ(flow.got[i], flow.data[i]);
  }
}

TEST_F(Floods, ReportSendsToPeerThatLeaves) {
  Flow& flow = send(0, 1, 1000, [](std::size_t) { return 3000; });
  let_them_go_on();
  EXPECT_FALSE(flow.sent.back().done);
  std::thread closing([leaving = std::move(of_[1])]() mutable { leaving.reset(); });
  finish(flow.sent.back());
  closing.join();
  for (Request& request : flow.sent) finish(request);
  ASSERT_FALSE(flow.sent.back().result);
  EXPECT_EQ(flow.sent.back().result.error().code, ErrorCode::peer_dead);
}

/// A peer that has left sends no announced messages.
TEST_F(Floods, OfOneWhoLeavesAreFailedReceives) {
  Flow& flow = send(1, 0, 1000, [](std::size_t) { return 3000; });
  let_them_go_on();
  Request any;
  int value = 0;
  of_[0]->receive(1, 77'777, &value, sizeof value, any);
  for (std::size_t i = 900; i < 1000; ++i) receive(flow, i, i);
  std::thread closing([leaving = std::move(of_[1])]() mutable { leaving.reset(); });
  finish(any);
  for (std::size_t i = 900; i < 1000; ++i) finish(flow.received[i]);
  closing.join();
  EXPECT_FALSE(any.result);
  EXPECT_FALSE(flow.received[999].result);
}

}  // namespace
}  // namespace penstock::messages
