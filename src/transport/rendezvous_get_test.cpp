// Messages from memory in the pool, which the receiver copies directly.
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/environment_guard.hpp"
#include "device/pool_mappings.hpp"
#include "transport/settings.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

constexpr std::uint64_t region_bytes = 8 << 20;

/// The user has its own mapping, like a program that uses libpenstock.so beside the provider.
class RendezvousGetTest : public TransportTest {
 protected:
  void SetUp() override {
    TransportTest::SetUp();
    attach_user();
    side_a_.pool->mappings().refresh();
  }
  void TearDown() override {
    user_.detach();
    TransportTest::TearDown();
  }
  void attach_user() {
    user_ = attach(spec_, 7);
    auto object = user_.arena->create("user's", region_bytes);
    ASSERT_TRUE(object) << object.error().message;
    region_ = object->data;
  }
  SendOp rendezvous_get(std::uint64_t at, const std::vector<std::byte>& contents,
                        std::uint64_t tag) {
    if (!contents.empty()) std::memcpy(region_ + at, contents.data(), contents.size());
    SendOp op;
    op.header = {tag, ~tag, contents.size(), 5};
    op.iov[0] = {region_ + at, contents.size()};
    op.iov_count = 1;
    return op;
  }
  std::uint64_t objects() const { return user_.arena->stats().objects; }

  const base::EnvironmentItems get_from_{"PENSTOCK_CHANNELS", "get=2048"};
  const base::EnvironmentItems cells_{"PENSTOCK_CHANNELS", "cells=32"};  // room for copied messages
  Attachment user_;
  std::byte* region_ = nullptr;
};

TEST_P(RendezvousGetTest, DeliversEverySizeAtAnyAddress) {
  const std::vector<std::uint64_t> sizes = {0,       8,         1000,  2048,  16384,
                                            16385,   20000,     65536, 65537, 300000,
                                            1 << 20, 7'000'001, 4096,  32,    100'000};
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{4099}}) {
    std::deque<SendOp> ops;
    for (const auto size : sizes) {
      const auto data = pattern(size, static_cast<unsigned>(size + at));
      ops.push_back(rendezvous_get(at, data, size));
      auto sent = a_->send(to_b_, &ops.back());
      ASSERT_TRUE(sent) << sent.error().message;
      if (!*sent) progress_until([&] { return !callbacks_a_.sent.empty(); });
      callbacks_a_.sent.clear();
      progress_until([&] { return !callbacks_b_.arrived.empty(); });
      EXPECT_EQ(callbacks_b_.arrived.front().payload, data) << "size " << size << " at " << at;
      EXPECT_EQ(callbacks_b_.arrived.front().header.tag, size);
      callbacks_b_.arrived.clear();
    }
  }
}

TEST_P(RendezvousGetTest, MakesNoCells) {
  auto first = pattern(100, 1);
  ASSERT_TRUE(*a_->try_inject(to_b_, {1, 0, first.size(), 0}, first.data()));
  const std::uint64_t before = objects();
  SendOp in_pool = rendezvous_get(64, pattern(2 << 20, 2), 2);
  ASSERT_FALSE(*a_->send(to_b_, &in_pool));
  progress_until([&] { return !callbacks_a_.sent.empty(); });
  EXPECT_EQ(objects(), before);
  auto elsewhere = pattern(2 << 20, 3);
  SendOp copied = op_of(elsewhere, 3);
  ASSERT_FALSE(*a_->send(to_b_, &copied));
  progress_until([&] { return callbacks_a_.sent.size() == 2; });
  EXPECT_GT(objects(), before);
}

TEST_P(RendezvousGetTest, HoldsBufferUntilReceiverCopied) {
  SendOp op = rendezvous_get(0, pattern(50'000, 1), 1);
  ASSERT_FALSE(*a_->send(to_b_, &op));
  for (int i = 0; i < 1000; ++i) a_->progress();
  EXPECT_TRUE(callbacks_a_.sent.empty());
  EXPECT_FALSE(a_->cancel(to_b_, &op)) << "it has left";
  progress_until([&] { return !callbacks_a_.sent.empty(); });
  EXPECT_EQ(callbacks_a_.sent.front(), &op);
  EXPECT_EQ(callbacks_b_.arrived.size(), 1u);
}

TEST_P(RendezvousGetTest, KeepsOrderAcrossForms) {
  std::deque<SendOp> ops;
  std::deque<std::vector<std::byte>> data;
  constexpr std::uint64_t messages = 60;
  unsigned complete = 0;
  for (std::uint64_t i = 0; i < messages; ++i) {
    const std::uint64_t size = i % 3 == 0 ? 100'000 : i % 3 == 1 ? 24 : 30'000;
    data.push_back(pattern(size, static_cast<unsigned>(i)));
    ops.push_back(i % 2 ? op_of(data.back(), i) : rendezvous_get(i * 110'000, data.back(), i));
    auto sent = a_->send(to_b_, &ops.back());
    ASSERT_TRUE(sent) << sent.error().message;
    complete += *sent;
  }
  progress_until([&] { return complete + callbacks_a_.sent.size() == messages; });
  progress_until([&] { return callbacks_b_.arrived.size() == messages; });
  for (std::uint64_t i = 0; i < messages; ++i) {
    EXPECT_EQ(callbacks_b_.arrived[i].header.tag, i);
    EXPECT_EQ(callbacks_b_.arrived[i].payload, data[i]) << i;
  }
}

TEST_P(RendezvousGetTest, ScatteredAndShortReceiveBuffers) {
  callbacks_b_.pieces = 3;
  const auto data = pattern(400'000, 1);
  SendOp op = rendezvous_get(24, data, 1);
  ASSERT_FALSE(*a_->send(to_b_, &op));
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
  EXPECT_EQ(callbacks_b_.arrived[0].payload, data);
  progress_until([&] { return callbacks_a_.sent.size() == 1; });
  callbacks_b_.capacity = 150'000;
  op = rendezvous_get(24, data, 2);
  ASSERT_FALSE(*a_->send(to_b_, &op));
  progress_until([&] { return callbacks_b_.arrived.size() == 2; });
  EXPECT_EQ(callbacks_b_.arrived[1].header.bytes, data.size());
  EXPECT_TRUE(std::equal(callbacks_b_.arrived[1].payload.begin(),
                         callbacks_b_.arrived[1].payload.end(), data.begin()));
  progress_until([&] { return callbacks_a_.sent.size() == 2; });
}

TEST_P(RendezvousGetTest, CopiesScatteredPayload) {
  const auto data = pattern(60'000, 1);
  SendOp op = rendezvous_get(0, data, 1);
  op.iov[1] = {region_ + 20'000, 40'000};
  op.iov[0].iov_len = 20'000;
  op.iov_count = 2;
  EXPECT_TRUE(*a_->send(to_b_, &op)) << "complete: it is in a cell";
  std::memset(region_, 0, data.size());
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
  EXPECT_EQ(callbacks_b_.arrived[0].payload, data);
}

/// Closing returns the buffer to the user, so a message that was not taken by then never arrives.
TEST_P(RendezvousGetTest, CloseWithdrawsMessage) {
  auto before = pattern(100, 1);
  ASSERT_TRUE(*a_->try_inject(to_b_, {1, 0, before.size(), 0}, before.data()));
  SendOp op = rendezvous_get(0, pattern(3 << 20, 2), 2);
  ASSERT_FALSE(*a_->send(to_b_, &op));
  std::atomic<bool> closed{false};
  std::thread closing([&] {
    a_.reset();  // waits until the first message is consumed
    closed = true;
  });
  const std::uint64_t end = base::now_ns() + 20'000'000'000ull;
  while (callbacks_b_.dead.empty() && callbacks_b_.arrived.size() < 2 && base::now_ns() < end)
    b_->progress();
  while (!closed.load()) b_->progress();
  closing.join();
  ASSERT_GE(callbacks_b_.arrived.size(), 1u);
  EXPECT_EQ(callbacks_b_.arrived[0].payload, before) << "waited for: it was complete";
  if (callbacks_b_.arrived.size() == 2)  // taken before the close began
    EXPECT_EQ(callbacks_b_.arrived[1].payload, pattern(3 << 20, 2));
  else
    EXPECT_EQ(callbacks_b_.dead.size(), 1u);
  b_.reset();
}

TEST_P(RendezvousGetTest, NeverDeliversMessageWithdrawnBeforePoll) {
  a_.reset();
  Options options{"test"};
  options.while_closing = [this] { b_->progress(); };  // after the message was withdrawn
  auto opened = Endpoint::open(*side_a_.arena, callbacks_a_, options);
  ASSERT_TRUE(opened) << opened.error().message;
  SendOp op = rendezvous_get(0, pattern(100'000, 2), 2);
  ASSERT_FALSE(*(*opened)->send(*(*opened)->resolve(b_->address()), &op));
  opened->reset();
  std::memset(region_, 0xee, 100'000);
  const std::uint64_t end = base::now_ns() + 20'000'000'000ull;
  while (callbacks_b_.dead.empty() && base::now_ns() < end) b_->progress();
  EXPECT_EQ(callbacks_b_.dead.size(), 1u);
  EXPECT_TRUE(callbacks_b_.arrived.empty());
  EXPECT_EQ(callbacks_b_.begun, 0u);
  b_.reset();
}

/// A library attaches while the endpoint is open.
TEST_P(RendezvousGetTest, FollowsMappingsMadeAndRemovedLater) {
  user_.detach();
  user_ = attach(spec_, 8);
  region_ = user_.arena->open("user's")->data;
  SendOp op = rendezvous_get(0, pattern(40'000, 1), 1);
  bool copied = true;
  progress_until([&] {
    copied = *a_->send(to_b_, &op);
    return !copied;
  });
  progress_until([&] { return callbacks_a_.sent.size() == 1; });

  // The same addresses, but private memory now: the old mapping must be forgotten.
  auto* const at = region_;
  const auto old_offset = side_a_.pool->mappings().offset_of(at, 40'000);
  EXPECT_TRUE(old_offset.has_value());
  user_.detach();
  void* reused =
      ::mmap(at - reinterpret_cast<std::uintptr_t>(at) % 4096, 1 << 20, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(reused, MAP_FAILED);
  callbacks_b_.arrived.clear();
  const auto data = pattern(40'000, 9);
  op = rendezvous_get(0, data, 2);
  EXPECT_TRUE(*a_->send(to_b_, &op)) << "copied";
  progress_until([&] { return callbacks_b_.arrived.size() == 1; });
  EXPECT_EQ(callbacks_b_.arrived[0].payload, data);
  ::munmap(reused, 1 << 20);
}

TEST(RendezvousGetSettings, ReadsThresholdFromVariable) {
  {
    const base::EnvironmentItems length("PENSTOCK_CHANNELS", "get=64K");
    EXPECT_EQ(settings_for(coherence::Mode::hardware)->rendezvous_get_min_bytes, 64u << 10);
  }
  const base::EnvironmentItems length("PENSTOCK_CHANNELS", "get=32");
  const auto settings = settings_for(coherence::Mode::hardware);
  ASSERT_FALSE(settings);
  EXPECT_NE(settings.error().message.find("PENSTOCK_CHANNELS has get=32; get is"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Modes, RendezvousGetTest,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software,
                                         coherence::Mode::uncached),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport
