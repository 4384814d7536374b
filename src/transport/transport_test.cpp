// Endpoints of one pool in one process.
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "base/environment_guard.hpp"
#include "pool/members.hpp"
#include "transport/endpoint_table.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

class SizesTest : public TransportTest {
 protected:
  /// Sends messages back to back or with pauses; for some lengths that decides the form.
  void exchange(bool pauses);
};

void SizesTest::exchange(bool pauses) {
  const std::vector<std::uint64_t> sizes = {0,     1,     8,     31,     32,     33,      88,
                                            89,    448,   1000,  1024,   1025,   4096,    16383,
                                            16384, 16385, 65536, 100000, 524288, 1 << 20, 3000001};
  std::vector<std::vector<std::byte>> data;
  std::deque<SendOp> ops;
  unsigned complete = 0;
  for (const auto size : sizes) {
    data.push_back(pattern(size, static_cast<unsigned>(size)));
    ops.push_back(op_of(data.back(), size));
    if (pauses) usleep(10);
    auto sent = a_->send(to_b_, &ops.back());
    ASSERT_TRUE(sent) << sent.error().message;
    complete += *sent;
  }
  progress_until([&] { return callbacks_b_.arrived.size() == sizes.size(); });
  progress_until([&] { return complete + callbacks_a_.sent.size() == sizes.size(); });
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Arrived& got = callbacks_b_.arrived[i];
    EXPECT_EQ(got.header.tag, sizes[i]);
    EXPECT_EQ(got.header.data, ~sizes[i]);
    EXPECT_EQ(got.header.kind, 5);
    EXPECT_EQ(got.from, a_->address().slot);
    EXPECT_EQ(got.payload, data[i]) << "size " << sizes[i];
  }
}

TEST_P(SizesTest, ArriveWholeAndInOrder) {
  exchange(false);
}

TEST_P(SizesTest, ArriveWholeAndInOrderOneByOne) {
  exchange(true);
}

TEST_P(TransportTest, RingWrapsManyTimes) {
  std::mt19937 random(7);
  std::deque<std::pair<std::uint64_t, std::vector<std::byte>>> expected;
  std::uint64_t next = 0;
  for (int round = 0; round < 3000; ++round) {
    auto data = pattern(random() % 700, static_cast<unsigned>(round));
    Header header{next, 0, data.size(), 1};
    for (;;) {
      auto injected = a_->try_inject(to_b_, header, data.data());
      ASSERT_TRUE(injected);
      if (*injected) break;
      b_->progress();
    }
    expected.emplace_back(next++, std::move(data));
    if (random() % 3 == 0) b_->progress();
  }
  progress_until([&] { return callbacks_b_.arrived.size() == expected.size(); });
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(callbacks_b_.arrived[i].header.tag, expected[i].first);
    ASSERT_EQ(callbacks_b_.arrived[i].payload, expected[i].second);
  }
}

TEST_P(TransportTest, DefersUnexpectedMessageForAWhile) {
  auto data = pattern(100000, 1);
  SendOp ops[] = {op_of(data, 1), op_of(data, 2), op_of(data, 3)};
  const auto send_and_look = [&](SendOp& op) {
    ASSERT_TRUE(a_->send(to_b_, &op));
    const unsigned asked = callbacks_b_.asked;
    while (callbacks_b_.asked == asked) b_->progress();
  };
  callbacks_b_.ready = false;
  send_and_look(ops[0]);
  EXPECT_EQ(callbacks_b_.begun, 0u);
  callbacks_b_.ready = true;  // a receive is posted
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });

  callbacks_b_.ready = false;
  send_and_look(ops[1]);
  EXPECT_EQ(callbacks_b_.begun, 1u);
  progress_until([&] { return callbacks_b_.arrived.size() == 2; });  // the deferral ends

  send_and_look(ops[2]);  // after a late receive messages are not deferred
  EXPECT_EQ(callbacks_b_.begun, 3u);
  progress_until([&] { return callbacks_b_.arrived.size() == 3; });
  for (const Arrived& got : callbacks_b_.arrived) EXPECT_EQ(got.payload, data);
}

/// Not in hardware mode, where 12 KiB go through a cell.
TEST_P(TransportTest, EagerMessageDoesNotBlockLaterOnes) {
  if (GetParam() == coherence::Mode::hardware)
    GTEST_SKIP() << "eager messages are short ones there";
  auto data = pattern(12 << 10, 1);
  SendOp op = op_of(data, 1);
  callbacks_b_.ready = false;
  ASSERT_TRUE(a_->send(to_b_, &op));
  ASSERT_TRUE(a_->try_inject(to_b_, {2, 0, 0, 0}, nullptr));
  progress_until([&] { return callbacks_b_.arrived.size() == 2; });
  EXPECT_EQ(callbacks_b_.asked, 1u);
  EXPECT_EQ(callbacks_b_.arrived[0].payload, data);
}

TEST_P(TransportTest, StopDeferringDeliversUnexpectedAtOnce) {
  auto data = pattern(100000, 1);
  SendOp op = op_of(data, 1);
  callbacks_b_.ready = false;
  ASSERT_TRUE(a_->send(to_b_, &op));
  b_->stop_deferring();
  while (callbacks_b_.asked == 0) b_->progress();
  EXPECT_EQ(callbacks_b_.begun, 1u);
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
}

TEST_P(TransportTest, ScatteredBuffersOnBothSides) {
  callbacks_b_.pieces = 4;
  for (const std::uint64_t size : {20u, 300u, 16000u, 200000u, 1500000u}) {
    auto data = pattern(size, 3);
    SendOp op;
    op.header = {1, 2, size, 0};
    op.iov_count = 3;
    const std::uint64_t cut1 = size / 7, cut2 = size / 2 + 1;
    op.iov[0] = {data.data(), cut1};
    op.iov[1] = {data.data() + cut1, cut2 - cut1};
    op.iov[2] = {data.data() + cut2, size - cut2};
    ASSERT_TRUE(a_->send(to_b_, &op));
    progress_until([&] { return callbacks_b_.arrived.size() == 1; });
    EXPECT_EQ(callbacks_b_.arrived.front().payload, data) << size;
    progress_until([&] { return a_->drained(); });
    callbacks_b_.arrived.clear();
  }
}

TEST_P(TransportTest, ShortReceiveBufferDropsOnlyRest) {
  callbacks_b_.capacity = 1000;
  for (const std::uint64_t size : {4096u, 300000u}) {
    auto data = pattern(size, 9);
    SendOp op = op_of(data, 0);
    ASSERT_TRUE(a_->send(to_b_, &op));
    progress_until([&] { return callbacks_b_.arrived.size() == 1; });
    EXPECT_EQ(callbacks_b_.arrived.front().header.bytes, size);
    data.resize(1000);
    EXPECT_EQ(callbacks_b_.arrived.front().payload, data);
    progress_until([&] { return a_->drained(); });
    callbacks_b_.arrived.clear();
  }
}

TEST_P(TransportTest, ReportsDeliveryAfterReceiverConsumed) {
  auto data = pattern(5000, 1);
  SendOp op = op_of(data, 4);
  op.notify_delivered = true;
  auto sent = a_->send(to_b_, &op);
  ASSERT_TRUE(sent);
  EXPECT_FALSE(*sent);
  for (int i = 0; i < 1000; ++i) a_->progress();
  EXPECT_TRUE(callbacks_a_.sent.empty());
  progress_until([&] { return !callbacks_a_.sent.empty(); });
  EXPECT_EQ(callbacks_b_.arrived.size(), 1u);
}

TEST_P(TransportTest, CancelsOnlyOpsThatHaveNotBegun) {
  auto big = pattern(4 << 20, 1), small = pattern(100, 2);
  SendOp first = op_of(big, 1), second = op_of(small, 2);
  ASSERT_FALSE(*a_->send(to_b_, &first));
  ASSERT_FALSE(*a_->send(to_b_, &second));
  EXPECT_FALSE(a_->cancel(to_b_, &first));
  EXPECT_TRUE(a_->cancel(to_b_, &second));
  progress_until([&] { return a_->drained(); });
  ASSERT_EQ(callbacks_b_.arrived.size(), 1u);
  EXPECT_EQ(callbacks_b_.arrived[0].payload, big);
}

/// Ops that have begun or are not wanted stay, in their order.
TEST_P(TransportTest, TakesBackQueuedOpsInOrder) {
  auto big = pattern(8 << 20, 1), small = pattern(10, 2);
  SendOp first = op_of(big, 2);
  std::vector<SendOp> others;
  for (std::uint64_t tag = 1; tag <= 6; ++tag) others.push_back(op_of(small, tag));
  ASSERT_FALSE(*a_->send(to_b_, &first));
  for (SendOp& op : others) ASSERT_FALSE(*a_->send(to_b_, &op));
  const auto even = [](const SendOp& op) { return op.header.tag % 2 == 0; };
  const SendOp* taken = a_->take_back(to_b_, even);
  for (const std::size_t index : {1u, 3u, 5u}) {
    ASSERT_EQ(taken, &others[index]);
    taken = taken->next;
  }
  EXPECT_EQ(taken, nullptr);
  EXPECT_EQ(a_->take_back(to_b_, even), nullptr);
  progress_until([&] { return a_->drained(); });
  ASSERT_EQ(callbacks_b_.arrived.size(), 4u);
  const std::uint64_t left[] = {2, 1, 3, 5};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(callbacks_b_.arrived[i].header.tag, left[i]);
  EXPECT_EQ(a_->take_back(to_a_, even), nullptr) << "nothing was sent there";
}

TEST_P(TransportTest, UrgentOpsOvertakeQueuedOnes) {
  constexpr std::uint64_t count = 600;
  auto data = pattern(20'000, 1), word = pattern(8, 2);
  std::deque<SendOp> ops;
  for (std::uint64_t tag = 0; tag < count; ++tag)
    ASSERT_TRUE(a_->send(to_b_, &ops.emplace_back(op_of(data, tag))));
  for (const std::uint64_t tag : {1'000'001u, 1'000'002u}) {
    ops.push_back(op_of(word, tag));
    ops.back().urgent = true;
    ASSERT_FALSE(*a_->send(to_b_, &ops.back()));
  }
  progress_until([&] { return callbacks_b_.arrived.size() == ops.size(); });
  std::vector<std::uint64_t> urgent;
  std::uint64_t next = 0;
  for (const Arrived& one : callbacks_b_.arrived) {
    if (one.header.tag > count)
      urgent.push_back(one.header.tag);
    else
      ASSERT_EQ(one.header.tag, next++);
    if (urgent.size() < 2) {
      ASSERT_LT(next, count / 2) << "they wait";
    }
  }
  EXPECT_EQ(urgent, (std::vector<std::uint64_t>{1'000'001, 1'000'002}));
}

TEST_P(TransportTest, CloseDropsQueuedOpsUntouched) {
  auto big = std::make_unique<std::vector<std::byte>>(pattern(8 << 20, 1));
  SendOp first = op_of(*big, 1), second = op_of(*big, 2);
  ASSERT_FALSE(*a_->send(to_b_, &first));
  ASSERT_FALSE(*a_->send(to_b_, &second));
  big.reset();
  std::jthread receiver([&] {
    while (callbacks_b_.dead.empty()) b_->progress();
  });
  const std::uint64_t before = base::now_ns();
  a_.reset();
  EXPECT_LT(base::now_ns() - before, 30'000'000'000u) << "waited for what cannot come";
  receiver.join();
  EXPECT_EQ(callbacks_b_.errors.size(), 1u) << "the half received";
  b_.reset();
}

TEST_P(TransportTest, SendsToItself) {
  const Peer self = *a_->resolve(a_->address());
  auto small = pattern(10, 1), big = pattern(100000, 2);
  SendOp op = op_of(big, 2);
  EXPECT_TRUE(*a_->try_inject(self, {1, 0, small.size(), 0}, small.data()));
  EXPECT_TRUE(*a_->send(self, &op));
  ASSERT_EQ(callbacks_a_.arrived.size(), 2u);
  EXPECT_EQ(callbacks_a_.arrived[0].payload, small);
  EXPECT_EQ(callbacks_a_.arrived[1].payload, big);
}

TEST_P(TransportTest, BothDirectionsAtOnce) {
  auto data_a = pattern(2 << 20, 1), data_b = pattern(2 << 20, 2);
  std::deque<SendOp> ops;
  for (int i = 0; i < 8; ++i) {
    ops.push_back(op_of(data_a, 1));
    ASSERT_TRUE(a_->send(to_b_, &ops.back()));
    ops.push_back(op_of(data_b, 2));
    ASSERT_TRUE(b_->send(to_a_, &ops.back()));
  }
  progress_until(
      [&] { return callbacks_a_.arrived.size() == 8 && callbacks_b_.arrived.size() == 8; });
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(callbacks_a_.arrived[i].payload, data_b);
    EXPECT_EQ(callbacks_b_.arrived[i].payload, data_a);
  }
}

TEST_P(TransportTest, RefusesForeignAddresses) {
  Address address = b_->address();
  address.job ^= 1;
  auto other_job = a_->resolve(address);
  ASSERT_FALSE(other_job);
  EXPECT_EQ(other_job.error().code, ErrorCode::mismatch);
  EXPECT_NE(other_job.error().message.find("PENSTOCK_JOB"), std::string::npos);
  address = b_->address();
  ++address.generation;
  EXPECT_EQ(a_->resolve(address).error().code, ErrorCode::not_found);
  address = b_->address();
  ++address.pool_id;
  EXPECT_EQ(a_->resolve(address).error().code, ErrorCode::mismatch);
  address = b_->address();
  address.slot = 0xffffffff;
  EXPECT_EQ(a_->resolve(address).error().code, ErrorCode::not_found);
  EXPECT_EQ(a_->try_inject(77, {}, nullptr).error().code, ErrorCode::invalid_argument);
}

TEST_P(TransportTest, LaterEndpointReceivesOnlyItsMessages) {
  for (int round = 0; round < 50; ++round) {
    auto data = pattern(2000, static_cast<unsigned>(round));
    SendOp op = op_of(data, static_cast<std::uint64_t>(round));
    auto sent = a_->send(to_b_, &op);
    ASSERT_TRUE(sent) << sent.error().message;
    progress_until([&] { return a_->drained(); });
    ASSERT_EQ(callbacks_b_.arrived.size(), 1u);
    EXPECT_EQ(callbacks_b_.arrived[0].payload, data);
    callbacks_b_.arrived.clear();
    a_->progress();
    const Address before = b_->address();
    b_.reset();
    b_ = open(side_b_, callbacks_b_);
    EXPECT_NE(b_->address().generation, before.generation);
    EXPECT_FALSE(a_->resolve(before));
    to_b_ = *a_->resolve(b_->address());
  }
}

TEST_P(TransportTest, FreesMemoryWhenEndpointsClose) {
  // tiles stay allocated: make the needed ones first
  ASSERT_TRUE(EndpointTable::open(*side_a_.arena)->words(b_->address().slot, a_->address().slot));
  a_.reset();
  b_.reset();
  const auto before = side_a_.arena->stats().bytes_used;
  for (int round = 0; round < 20; ++round) {
    a_ = open(side_a_, callbacks_a_);
    b_ = open(side_b_, callbacks_b_);
    to_b_ = *a_->resolve(b_->address());
    auto data = pattern(300000, 1);
    SendOp op = op_of(data, 1);
    ASSERT_TRUE(a_->send(to_b_, &op));
    progress_until([&] { return a_->drained(); });
    a_.reset();
    b_.reset();
  }
  EXPECT_EQ(side_a_.arena->stats().bytes_used, before);
}

void fill(arena::Arena& arena) {
  for (std::uint64_t bytes = 32 << 20; bytes >= 4096; bytes /= 2)
    while (arena.create("filler" + std::to_string(bytes) + "." + std::to_string(rand()), bytes,
                        {.zero = false})) {
    }
}

/// Without coherence such streams use cells only if there is memory for them; with coherence
/// always.
TEST_P(TransportTest, StreamUsesLinesInFullPool) {
  const bool has_lines = GetParam() != coherence::Mode::hardware;
  const auto data = pattern(8000, 1);
  const Header header{1, 0, data.size(), 0};
  const base::EnvironmentItems cell_larger_than_pool("PENSTOCK_CHANNELS", "cell=1M");
  a_.reset();
  a_ = open(side_a_, callbacks_a_);
  to_b_ = *a_->resolve(b_->address());
  ASSERT_TRUE(a_->try_inject(to_b_, {0, 0, 0, 0}, nullptr));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(a_->try_inject(to_b_, {0, 0, 0, 0}, nullptr));  // grows
  progress_until([&] { return callbacks_b_.arrived.size() == 101; });
  fill(*side_a_.arena);
  for (int i = 0; i < 40;) {
    const auto sent = a_->try_inject(to_b_, header, data.data());
    if (!has_lines) {
      ASSERT_FALSE(sent);
      EXPECT_EQ(sent.error().code, ErrorCode::no_space);
      return;
    }
    ASSERT_TRUE(sent) << sent.error().message;
    i += *sent;
    b_->progress();
  }
  progress_until([&] { return callbacks_b_.arrived.size() == 141; });
  EXPECT_EQ(callbacks_b_.arrived.back().payload, data);
}

TEST_P(TransportTest, FullPoolErrorNamesNeededBytes) {
  fill(*side_a_.arena);
  auto data = pattern(100, 1);
  SendOp op = op_of(data, 1);
  auto sent = a_->send(to_b_, &op);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::no_space);
  const std::string& text = sent.error().message;
  EXPECT_NE(text.find("penstock pool create"), std::string::npos);
  EXPECT_EQ(text.find("larger pool"), text.rfind("larger pool")) << "said once: " << text;
}

/// For an answer that finds no memory: the error code travels with the credits, which need none.
TEST_P(TransportTest, SendsErrorWithoutMessage) {
  ASSERT_TRUE(*a_->try_inject(to_b_, {1, 0, 0, 0}, nullptr));
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
  EXPECT_EQ(a_->take_error(to_b_), 0u);
  for (int i = 0; i < 3; ++i) {
    b_->send_error(to_a_, 28);
    EXPECT_EQ(a_->take_error(to_b_), 28u);
    EXPECT_EQ(a_->take_error(to_b_), 0u) << "told once";
  }
  ASSERT_TRUE(*a_->try_inject(to_b_, {2, 0, 0, 0}, nullptr));
  progress_until([&] { return callbacks_b_.arrived.size() == 2; });
  EXPECT_EQ(a_->take_error(to_b_), 0u);
}

/// The caller and other senders get their turn while a long message arrives.
TEST_P(TransportTest, OneCallTakesPartOfLongMessage) {
  constexpr std::uint64_t bytes = 32 << 20, max_per_call = (512 + 128) << 10;
  auto data = pattern(bytes, 1);
  SendOp op = op_of(data, 1);
  std::thread sender([&] {
    if (!b_->send(to_a_, &op)) return;
    while (!b_->drained()) b_->progress();
  });
  std::uint64_t fruitful = 0;
  while (callbacks_a_.arrived.empty()) fruitful += a_->progress() != 0;
  sender.join();
  EXPECT_EQ(callbacks_a_.arrived[0].payload, data);
  EXPECT_GE(fruitful, bytes / max_per_call);
}

/// The process that holds the pool's lock may be stopped.
TEST_P(TransportTest, SendsErrorOnceLockIsFree) {
  auto data = pattern(8, 1);
  SendOp op = op_of(data, 1);
  ASSERT_TRUE(a_->send(to_b_, &op));
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
  {
    const auto guard = side_a_.pool->lock();
    ASSERT_TRUE(guard);
    b_->send_error(to_a_, 28);
    EXPECT_EQ(a_->take_error(to_b_), 0u);
  }
  progress_until([&] { return a_->take_error(to_b_) == 28; });
}

constexpr auto mode_of = [](const testing::TestParamInfo<coherence::Mode>& mode) {
  return std::string(mode_name(mode.param));
};
const auto modes = testing::Values(coherence::Mode::hardware, coherence::Mode::software,
                                   coherence::Mode::uncached);
INSTANTIATE_TEST_SUITE_P(Modes, TransportTest, modes, mode_of);
INSTANTIATE_TEST_SUITE_P(Modes, SizesTest, modes, mode_of);

/// The peer takes the message, acknowledges it and leaves, all during one call of progress(), which
/// then checks whether peers are still there.
TEST_P(TransportTest, ReportsDeliveryAcknowledgedBeforePeerLeft) {
  constexpr int calls_to_look = 512;
  Recorder other_callbacks;
  auto other = open(side_b_, other_callbacks);
  const Peer to_a = *other->resolve(a_->address());
  auto data = pattern(500, 1);
  SendOp op = op_of(data, 1);
  op.notify_delivered = true;
  ASSERT_FALSE(*a_->send(to_b_, &op));
  timespec longer_than_check{0, 50'000'000};
  nanosleep(&longer_than_check, nullptr);
  // each call polls the channel of the other one
  for (int i = 1; i < calls_to_look; ++i) {
    if (i % 16 == 0) {
      ASSERT_TRUE(*other->try_inject(to_a, {7, 0, 0, 0}, nullptr));
    }
    a_->progress();
  }
  ASSERT_TRUE(*other->try_inject(to_a, {7, 0, 0, 0}, nullptr));
  callbacks_a_.meanwhile = [this] {
    while (callbacks_b_.arrived.empty()) b_->progress();
    b_.reset();
  };
  a_->progress();
  EXPECT_FALSE(b_);
  EXPECT_EQ(callbacks_a_.sent.size(), 1u);
  EXPECT_TRUE(callbacks_a_.failed.empty());
  EXPECT_TRUE(callbacks_a_.dead.empty());
  for (int i = 0; i < 200; ++i) a_->progress();  // returns the credit that `other` waits for
}

/// One thread drives all endpoints: the closing one must let the others make progress.
TEST_P(TransportTest, ClosingEndpointLetsOthersProgress) {
  Options options{"test"};
  options.while_closing = [this] { b_->progress(); };
  Recorder callbacks;
  auto opened = Endpoint::open(*side_a_.arena, callbacks, options);
  ASSERT_TRUE(opened) << opened.error().message;
  const Peer to_b = *(*opened)->resolve(b_->address());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(*(*opened)->try_inject(to_b, {1, 0, 0, 0}, nullptr));
  opened->reset();
  EXPECT_EQ(callbacks_b_.arrived.size(), 5u);
}

TEST_P(TransportTest, PublishesWaitWhenNothingMoves) {
  const auto activity_text = [&] {
    for (const auto& record : side_b_.pool->members().processes())
      if (record.rank == 0) return record.activity;
    return std::string("no record");
  };
  const auto progress_for = [&](std::uint64_t ns) {
    for (const std::uint64_t end = base::now_ns() + ns; base::now_ns() < end;) a_->progress();
  };
  progress_for(400'000'000);
  EXPECT_EQ(activity_text().rfind("polls for messages since ", 0), 0u) << activity_text();
  ASSERT_TRUE(*b_->try_inject(to_a_, {1, 0, 0, 0}, nullptr));
  while (callbacks_a_.arrived.empty()) a_->progress();
  EXPECT_EQ(activity_text(), "");
  auto data = pattern(4 << 20, 1);
  SendOp op = op_of(data, 1);
  ASSERT_FALSE(*a_->send(to_b_, &op));
  progress_for(400'000'000);
  EXPECT_EQ(activity_text().rfind("sends to rank 1 ", 0), 0u) << activity_text();
  progress_until([&] { return callbacks_a_.sent.size() == 1; });
}

}  // namespace
}  // namespace penstock::transport
