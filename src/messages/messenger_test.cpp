#include "messages/messenger.hpp"

#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "transport/test_endpoints.hpp"

namespace penstock::messages {
namespace {

using testing::HasSubstr;
using transport::pattern;

/// Three ranks of one process; the second plays a host of its own.
class Messages : public testing::Test {
 protected:
  static constexpr std::uint32_t ranks = 3;

  void SetUp() override {
    pool::CreateOptions options;
    options.spec = spec_;
    options.bytes = 64 << 20;
    ASSERT_TRUE(pool::create(options));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      sides_.push_back(transport::attach(spec_, static_cast<int>(rank), rank == 1 ? 1 : 0));
      auto opened = Messenger::open(*sides_[rank].arena, {.self = rank, .ranks = ranks});
      ASSERT_TRUE(opened) << opened.error().message;
      of_.push_back(std::move(*opened));
    }
    for (auto& messenger : of_) {
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        ASSERT_TRUE(messenger->meet(rank, of_[rank]->address()));
    }
  }
  void TearDown() override {
    let_them_go_on();
    of_.clear();
    for (auto& side : sides_) side.detach();
    (void)pool::remove(spec_, true);
  }
  void let_them_go_on() {
    for (int i = 0; i < 2000; ++i) progress();
  }
  void progress() {
    for (auto& messenger : of_) {
      if (messenger != nullptr) messenger->progress();
    }
  }
  void finish(const Request& request) {
    const std::uint64_t end = base::now_ns() + 20'000'000'000ull;
    while (!request.done) {
      progress();
      ASSERT_LT(base::now_ns(), end) << "it does not end";
    }
  }

  std::string spec_ = transport::unique_spec();
  std::vector<transport::Attachment> sides_;
  std::vector<std::unique_ptr<Messenger>> of_;
};

TEST_F(Messages, ComeBeforeAndAfterTheirReceives) {
  for (const std::uint64_t bytes : {0u, 1u, 56u, 5000u, 3'000'000u}) {
    for (const bool early : {false, true}) {
      const auto data = pattern(bytes, 3);
      std::vector<std::byte> got(bytes);
      Request sent, received;
      if (early) of_[1]->receive(0, 9, got.data(), got.size(), received);
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
  EXPECT_THAT(never.result.error().message, HasSubstr("has left"));
  of_[0]->receive(1, 3, &got, sizeof got, came);
  finish(came);
  EXPECT_TRUE(came.result);
  EXPECT_EQ(got, 4);
  of_[0]->receive(1, 3, &got, sizeof got, late);
  finish(late);
  EXPECT_FALSE(late.result);
}

}  // namespace
}  // namespace penstock::messages
