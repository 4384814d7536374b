// Memory of channels: it is freed when the peer has ended.
#include "transport/tx_memory.hpp"

#include <csignal>
#include <thread>

#include "transport/endpoint_table.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

class TxMemoryTest : public TransportTest {
 protected:
  EndpointTable table() const { return *EndpointTable::open(*side_a_.arena); }
  std::uint64_t used() const { return side_a_.arena->stats().bytes_used; }
  /// Pool memory that a_ holds for its channels.
  std::uint64_t for_channels() const {
    std::uint64_t bytes = 0;
    const std::string prefix = "penstock.tx." + std::to_string(a_->address().slot) + ".";
    for (const auto& object : side_a_.arena->list())
      if (object.name.starts_with(prefix)) bytes += object.bytes;
    return bytes;
  }
  /// Sends a message that needs cells, and waits until the endpoint has taken it.
  void talk_to(Endpoint& other, Recorder& callbacks) {
    const Peer to = *a_->resolve(other.address());
    auto data = pattern(100'000, 3);
    SendOp op = op_of(data, 1);
    const std::size_t before = callbacks.arrived.size();
    ASSERT_TRUE(a_->send(to, &op));
    while (callbacks.arrived.size() == before || !a_->drained()) {
      a_->progress();
      other.progress();
    }
    EXPECT_EQ(callbacks.arrived.back().payload, data);
  }
};

/// Each one takes its predecessor's slot, so a_ finds a later generation there.
TEST_P(TxMemoryTest, ReusesMemoryOverManyShortLivedPeers) {
  b_.reset();
  std::uint64_t after_first = 0;
  for (int i = 0; i < 40; ++i) {
    Recorder callbacks;
    auto other = open(side_b_, callbacks);
    talk_to(*other, callbacks);
    other.reset();
    if (i == 0) after_first = used();
    EXPECT_EQ(used(), after_first);
  }
}

TEST_P(TxMemoryTest, OptionalAllocationDoesNotWaitForLock) {
  TxMemory memory(*side_a_.arena, table(), {0, 0, 998, 1});
  const auto guard = side_b_.pool->lock();
  ASSERT_TRUE(guard);
  const auto none = memory.allocate(68 << 10, "a channel", false);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::deadline);
}

TEST_P(TxMemoryTest, CloseDeadlineLeavesOnlyMemoryInUse) {
  // Make all memory that stays before counting the rest: tiles, and the first piece of b_, which
  // a_'s process made together with its own.
  talk_to(*b_, callbacks_b_);
  Recorder callbacks;
  {
    auto late =
        Endpoint::open(*side_a_.arena, callbacks, {.job = "test", .closing_timeout_ns = 1'000});
    ASSERT_TRUE(late) << late.error().message;
    ASSERT_TRUE(*(*late)->try_inject(*(*late)->resolve(b_->address()), {1, 0, 0, 0}, nullptr));
  }
  progress_until([&] { return callbacks_b_.arrived.size() == 2; });
  a_.reset();
  const std::uint64_t left = used();
  for (int i = 0; i < 5; ++i) {
    a_ = open(side_a_, callbacks_a_);
    talk_to(*b_, callbacks_b_);
    a_.reset();
    EXPECT_LE(used(), left);
  }
}

TEST_P(TxMemoryTest, FreesMemoryWhenPeersLeave) {
  std::deque<Recorder> all_callbacks(6);
  std::vector<std::unique_ptr<Endpoint>> others;
  for (Recorder& callbacks : all_callbacks) {
    others.push_back(open(side_b_, callbacks));
    talk_to(*others.back(), callbacks);
  }
  EXPECT_GT(for_channels(), 6u * (64 << 10));
  others.clear();
  progress_until([&] { return for_channels() == 0; });
  EXPECT_TRUE(callbacks_a_.dead.empty());
}

/// A killed peer's credits may arrive at any later time.
TEST_P(TxMemoryTest, FreesMemoryWhenPeerDies) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const Address own = a_->address();
  const pid_t child = fork();
  if (child == 0) {
    Attachment side = attach(spec_, 2);
    Recorder callbacks;
    auto endpoint = Endpoint::open(*side.arena, callbacks, {"test"});
    if (!endpoint || !(*endpoint)->resolve(own)) _exit(1);
    const Address address = (*endpoint)->address();
    if (::write(pipe[1], &address, sizeof address) != sizeof address) _exit(1);
    for (;;) (*endpoint)->progress();
  }
  Address address;
  ASSERT_EQ(::read(pipe[0], &address, sizeof address), static_cast<ssize_t>(sizeof address));
  const Peer to = *a_->resolve(address);
  auto data = pattern(100'000, 3);
  SendOp op = op_of(data, 1);
  ASSERT_TRUE(a_->send(to, &op));
  progress_until([&] { return a_->drained(); });
  EXPECT_GT(for_channels(), 0u);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  progress_until([&] { return for_channels() == 0; });
  EXPECT_EQ(callbacks_a_.dead.size(), 1u);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

/// A block that a dead peer may still store to is not reused; a block of a peer that left is.
TEST_P(TxMemoryTest, DoesNotReuseMemoryOfDeadPeer) {
  TxMemory memory(*side_a_.arena, table(), {0, 0, 77, 1});
  const std::uint64_t before = used();
  std::byte* const first = *memory.allocate(8 << 10, "a test");
  std::byte* const second = *memory.allocate(8 << 10, "a test");
  std::byte* const third = *memory.allocate(8 << 10, "a test");
  memory.give_back(second, 8 << 10, true);
  EXPECT_EQ(*memory.allocate(8 << 10, "a test"), second);
  memory.give_back(second, 8 << 10, false);
  for (int i = 0; i < 20; ++i) EXPECT_NE(*memory.allocate(8 << 10, "a test"), second);
  memory.give_back(first, 8 << 10, true);
  memory.give_back(third, 8 << 10, true);
  EXPECT_GT(used(), before);
}

/// A piece goes back to the arena with its last block.
TEST_P(TxMemoryTest, ReturnsUnusedPiece) {
  TxMemory memory(*side_a_.arena, table(), {0, 0, 77, 1});
  const std::uint64_t before = used();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::byte*> blocks;
    for (int i = 0; i < 30; ++i) blocks.push_back(*memory.allocate(8 << 10, "a test"));
    EXPECT_GT(used(), before);
    for (std::size_t i = 0; i < blocks.size(); ++i)
      memory.give_back(blocks[i], 8 << 10, i % 2 == 0);
    EXPECT_EQ(used(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, TxMemoryTest,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport
