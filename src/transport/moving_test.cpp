// Channels that grow, or cannot grow.
#include <time.h>

#include "base/environment_guard.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

constexpr std::uint64_t ns_a_s = 1'000'000'000;

class GrowingTest : public TransportTest {
 protected:
  void inject_word() {
    while (!*a_->try_inject(to_b_, {}, nullptr)) {
      a_->progress();
      b_->progress();
    }
  }
};

/// The receiver polls in each report of a sent message, so it always keeps up.
class KeepsUp final : public EndpointCallbacks {
 public:
  ReceiveBuffer on_message(const Message&) override { return {}; }
  void on_sent(SendOp*) override {
    ++sent;
    receiver->progress();
  }
  void on_send_failed(SendOp*, const Error&) override {}
  void on_peer_dead(Peer, const std::string&) override {}
  Endpoint* receiver = nullptr;
  unsigned sent = 0;
};

/// Line numbers begin anew in the larger ring.
TEST_P(GrowingTest, MovingCallSendsAtMostOneRing) {
  constexpr unsigned words = 3000, ring_lines = 1024;
  a_.reset();
  KeepsUp callbacks;
  a_ = open(side_a_, callbacks);
  callbacks.receiver = b_.get();
  to_b_ = *a_->resolve(b_->address());
  inject_word();
  {
    const auto no_growth = side_b_.pool->lock();
    ASSERT_TRUE(no_growth);
    for (unsigned i = 0; i < words; ++i) inject_word();
  }
  const timespec pause_without_polls{1, 100'000'000};
  nanosleep(&pause_without_polls, nullptr);
  std::vector<std::byte> data(8);
  SendOp delivered = op_of(data, 1);  // prevents the move until it is delivered
  delivered.notify_delivered = true;
  ASSERT_FALSE(*a_->send(to_b_, &delivered));
  std::deque<SendOp> queued;
  for (unsigned i = 0; i < words; ++i) {
    queued.push_back(op_of(data, i));
    if (*a_->send(to_b_, &queued.back())) queued.pop_back();
  }
  const std::uint64_t end = base::now_ns() + 20 * ns_a_s;
  while (callbacks.sent < queued.size() + 1) {
    const unsigned before = callbacks.sent;
    a_->progress();
    ASSERT_LE(callbacks.sent - before, ring_lines + 1);
    b_->progress();
    ASSERT_LT(base::now_ns(), end);
  }
  while (!a_->drained()) b_->progress();
  a_.reset();
}

/// An idle channel returns its additional memory.
TEST_P(GrowingTest, ShrinksWhenIdle) {
  const base::EnvironmentItems idle("PENSTOCK_CHANNELS", "idle_ms=100");
  a_.reset();
  a_ = open(side_a_, callbacks_a_);
  to_b_ = *a_->resolve(b_->address());
  const auto used = [&] { return side_a_.arena->stats().bytes_used; };
  inject_word();
  const std::uint64_t small = used();
  for (unsigned i = 0; i < 3000; ++i) inject_word();
  ASSERT_GT(used(), small) << "it has not grown";
  progress_until([&] { return used() <= small; });
  inject_word();
  progress_until([&] { return callbacks_b_.arrived.size() == 3002; });
}

/// Longer messages of a stream prefer cells, but can do without.
TEST_P(GrowingTest, StreamDoesNotWaitForLock) {
  const base::EnvironmentItems lines("PENSTOCK_CHANNELS", "first_lines=1024");
  a_.reset();
  a_ = open(side_a_, callbacks_a_);
  to_b_ = *a_->resolve(b_->address());
  inject_word();
  auto data = pattern(8000, 1);
  std::deque<SendOp> ops(20);
  const std::uint64_t since = base::now_ns();
  {
    const auto held = side_b_.pool->lock();
    ASSERT_TRUE(held);
    for (SendOp& op : ops) {
      op = op_of(data, 1);
      op.header.kind = 6;
      ASSERT_TRUE(a_->send(to_b_, &op));
    }
    progress_until([&] { return callbacks_b_.arrived.size() == 1 + ops.size(); });
  }
  EXPECT_LT(base::now_ns() - since, 5 * ns_a_s);
  for (const Arrived& each : callbacks_b_.arrived)
    if (each.header.kind == 6) {
      EXPECT_TRUE(each.payload == data);
    }
}

INSTANTIATE_TEST_SUITE_P(Modes, GrowingTest,
                         testing::Values(coherence::Mode::software, coherence::Mode::uncached),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport
