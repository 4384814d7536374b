// Messages to a receive buffer in the pool, which the sender stores to directly.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/environment_guard.hpp"
#include "transport/settings.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

constexpr std::uint64_t region_bytes = 8 << 20;

/// Side b receives into `region_`, which lies in the pool.
class RendezvousPutTest : public TransportTest {
 protected:
  void SetUp() override {
    nodes_ = 2;
    TransportTest::SetUp();
    auto object = side_b_.arena->create("b's", region_bytes);
    ASSERT_TRUE(object) << object.error().message;
    region_ = object->data;
    callbacks_b_.receive_buffer = region_;
  }
  /// Sends it and returns the payload at b, which polls all the time.
  std::vector<std::byte> deliver(std::vector<std::byte>& data) {
    ops_.push_back(op_of(data, data.size()));
    auto sent = a_->send(to_b_, &ops_.back());
    EXPECT_TRUE(sent) << sent.error().message;
    progress_until([&] { return !callbacks_b_.arrived.empty(); });
    progress_until([&] { return *sent || !callbacks_a_.sent.empty(); });
    callbacks_a_.sent.clear();
    auto payload = std::move(callbacks_b_.arrived.front().payload);
    callbacks_b_.arrived.clear();
    return payload;
  }
  /// Begins a message with a request to send; b answers in its next polls.
  SendOp* begin_after_clear_to_send(std::vector<std::byte>& data) {
    auto first = pattern(1 << 20, 1);
    EXPECT_EQ(deliver(first), first);
    ops_.push_back(op_of(data, 7));
    EXPECT_FALSE(*a_->send(to_b_, &ops_.back()));
    return &ops_.back();
  }

  std::deque<SendOp> ops_;
  std::byte* region_ = nullptr;
};

TEST_P(RendezvousPutTest, DeliversEverySizeAndNothingBeside) {
  for (const std::uint64_t at : {0, 64, 8, 4096 + 17}) {
    for (const std::uint64_t size : {131'072, 131'073, 131'135, 200'000, 1 << 20, 3'000'017, 300}) {
      std::memset(region_, 0x5a, region_bytes);
      callbacks_b_.receive_buffer = region_ + at;
      auto data = pattern(size, static_cast<unsigned>(size + at));
      EXPECT_EQ(deliver(data), data) << "size " << size << " at " << at;
      for (std::uint64_t i = 0; i < region_bytes; ++i) {
        if (i == at) i += size;
        ASSERT_EQ(region_[i], std::byte{0x5a})
            << "byte " << i << " beside " << size << " at " << at;
      }
    }
  }
}

TEST_P(RendezvousPutTest, SenderStoresWhileReceiverIsIdle) {
  auto data = pattern(400'000, 3);
  begin_after_clear_to_send(data);
  std::memset(region_, 0, region_bytes);
  while (callbacks_b_.begun < 2) b_->progress();
  EXPECT_EQ(region_[0], std::byte{0});
  std::uint64_t there = 0;
  for (int i = 0; i < 1000; ++i) a_->progress();
  while (there < data.size() && region_[there] == data[there]) ++there;
  EXPECT_GE(there, 32u << 10) << "as much as was cleared to send";
  EXPECT_TRUE(callbacks_b_.arrived.empty());
  progress_until([&] { return !callbacks_b_.arrived.empty(); });
  EXPECT_EQ(callbacks_b_.arrived[0].payload, data);
}

TEST_P(RendezvousPutTest, ClearsWholePostedBuffer) {
  auto data = pattern(400'000, 3);
  auto first = pattern(1 << 20, 1);
  EXPECT_EQ(deliver(first), first);
  std::memset(region_, 0, region_bytes);
  callbacks_b_.posted_bytes = data.size();
  for (int i = 0; i < 1000; ++i)
    if (b_->progress() == 0) b_->prepare(callbacks_b_.posted());
  EXPECT_EQ(callbacks_b_.invalidated.bytes,
            GetParam() == coherence::Mode::software ? data.size() : 0);
  ops_.push_back(op_of(data, 7));
  EXPECT_FALSE(*a_->send(to_b_, &ops_.back()));
  while (callbacks_b_.begun < 2) b_->progress();
  for (int i = 0; i < 1000; ++i) a_->progress();
  const bool at_once = std::memcmp(region_, data.data(), data.size()) == 0;
  EXPECT_EQ(at_once, GetParam() == coherence::Mode::software);
  progress_until([&] { return !callbacks_b_.arrived.empty(); });
  EXPECT_EQ(callbacks_b_.arrived[0].payload, data);
}

TEST_P(RendezvousPutTest, WaitsBrieflyForReceiverThatDoesNotPoll) {
  auto data = pattern(300'000, 4);
  SendOp* op = begin_after_clear_to_send(data);
  const std::uint64_t end = base::now_ns() + 20'000'000'000ull;
  while (callbacks_a_.sent.empty() && base::now_ns() < end) a_->progress();
  ASSERT_EQ(callbacks_a_.sent.size(), 1u) << "all of it fits into the cells";
  EXPECT_EQ(callbacks_a_.sent[0], op);
  progress_until([&] { return !callbacks_b_.arrived.empty(); });
  EXPECT_EQ(callbacks_b_.arrived[0].payload, data);
}

TEST_P(RendezvousPutTest, SenderSeesRefusal) {
  auto data = pattern(300'000, 5);
  callbacks_b_.receive_buffer = region_;
  begin_after_clear_to_send(data);
  callbacks_b_.receive_buffer = nullptr;  // receives into private memory
  progress_until([&] { return !callbacks_b_.arrived.empty(); });
  EXPECT_EQ(callbacks_b_.arrived[0].payload, data);
  callbacks_b_.arrived.clear();
  auto next = pattern(300'000, 6);
  ops_.push_back(op_of(next, 8));
  ASSERT_TRUE(*a_->send(to_b_, &ops_.back())) << "the next does not ask";
  progress_until([&] { return !callbacks_b_.arrived.empty(); });
  EXPECT_EQ(callbacks_b_.arrived[0].payload, next);
}

TEST_P(RendezvousPutTest, BothDirectionsAtOnce) {
  auto object = side_a_.arena->create("a's", region_bytes);
  ASSERT_TRUE(object);
  callbacks_a_.receive_buffer = object->data;
  auto there = pattern(2 << 20, 7), back = pattern(2 << 20, 8);
  for (int round = 0; round < 5; ++round) {
    SendOp out = op_of(there, 1), in = op_of(back, 2);
    ASSERT_TRUE(a_->send(to_b_, &out));
    ASSERT_TRUE(b_->send(to_a_, &in));
    progress_until([&] { return !callbacks_a_.arrived.empty() && !callbacks_b_.arrived.empty(); });
    EXPECT_EQ(callbacks_b_.arrived[0].payload, there);
    EXPECT_EQ(callbacks_a_.arrived[0].payload, back);
    progress_until([&] { return callbacks_a_.sent.size() == 1 && callbacks_b_.sent.size() == 1; });
    callbacks_a_.arrived.clear();
    callbacks_b_.arrived.clear();
    callbacks_a_.sent.clear();
    callbacks_b_.sent.clear();
  }
}

/// A library attaches while the endpoint is open, as for the first MPI_Alloc_mem.
TEST_P(RendezvousPutTest, FindsMappingMadeLater) {
  Attachment user = attach(spec_, 8, 1);
  callbacks_b_.receive_buffer = user.arena->open("b's")->data;
  std::memset(callbacks_b_.receive_buffer, 0, 2 << 20);
  auto first = pattern(1 << 20, 1), data = pattern(400'000, 3);
  EXPECT_EQ(deliver(first), first);
  ops_.push_back(op_of(data, 7));
  EXPECT_FALSE(*a_->send(to_b_, &ops_.back())) << "it asks, for there was a clear-to-send";
  progress_until([&] { return !callbacks_b_.arrived.empty(); });
  EXPECT_EQ(callbacks_b_.arrived[0].payload, data);
}

TEST(RendezvousPutSettings, ReadsThresholdFromVariable) {
  const base::EnvironmentItems length("PENSTOCK_CHANNELS", "put=1M");
  EXPECT_EQ(settings_for(coherence::Mode::software)->rendezvous_put_min_bytes, 1u << 20);
}

/// The sender's slot has a new owner, which the receiver has not resolved.
TEST_P(RendezvousPutTest, NewOwnerStoresNothingAfterReceiverCloses) {
  const auto slot = a_->address().slot;
  a_.reset();
  a_ = open(side_a_, callbacks_a_);
  ASSERT_EQ(a_->address().slot, slot);
  to_b_ = *a_->resolve(b_->address());
  auto data = pattern(400'000, 3);
  begin_after_clear_to_send(data);
  while (callbacks_b_.begun < 2) b_->progress();
  std::atomic<bool> closed = false;
  std::jthread sender([&] {
    while (!closed) a_->progress();
  });
  b_.reset();
  closed = true;
  sender.join();
  std::memset(region_, 0, region_bytes);
  side_b_.pool->memory().write_back(region_, region_bytes);
  side_b_.pool->memory().store_fence();
  for (int i = 0; i < 1000; ++i) a_->progress();
  std::vector<std::byte> seen(region_bytes);
  side_b_.pool->memory().observe_bulk(seen.data(), region_, region_bytes);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), std::byte{0}), std::int64_t{region_bytes});
}

INSTANTIATE_TEST_SUITE_P(Modes, RendezvousPutTest,
                         testing::Values(coherence::Mode::software, coherence::Mode::uncached),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport
