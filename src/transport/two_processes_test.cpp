// Endpoints of two processes: one is stopped, killed, or closes while the other continues.
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "base/fork_in_tests.hpp"
#include "transport/test_endpoints.hpp"

namespace penstock::transport {
namespace {

/// Runs `child` in another process with its own attachment; kills it at the end if necessary.
class TwoProcesses : public TransportTest {
 protected:
  TwoProcesses() { processes_ = 64; }
  /// The child's endpoint is its second one, so its slot may go to another process.
  pid_t fork_peer(const std::function<void(Endpoint&, Recorder&, Peer)>& child,
                  std::uint64_t closing_timeout_ns = 0) {
    base::skip_unless_fork_is_followed();
    int up[2], down[2];
    EXPECT_EQ(pipe(up) + pipe(down), 0);
    const Address parent_address = a_->address();
    const pid_t pid = fork();
    if (pid == 0) {
      Attachment side = attach(spec_, 2);
      Recorder callbacks, callbacks_of_first;
      auto first = open(side, callbacks_of_first);
      auto endpoint = std::move(*Endpoint::open(
          *side.arena, callbacks, {.job = "test", .closing_timeout_ns = closing_timeout_ns}));
      const Address mine = endpoint->address();
      if (write(up[1], &mine, sizeof mine) != sizeof mine) _exit(9);
      char go;
      if (read(down[0], &go, 1) != 1) _exit(8);
      child(*endpoint, callbacks, *endpoint->resolve(parent_address));
      endpoint.reset();
      first.reset();
      side.detach();
      _exit(0);
    }
    Address theirs;
    EXPECT_EQ(read(up[0], &theirs, sizeof theirs), static_cast<ssize_t>(sizeof theirs));
    child_ = *a_->resolve(theirs);
    EXPECT_EQ(write(down[1], "g", 1), 1);
    for (int fd : {up[0], up[1], down[0], down[1]}) close(fd);
    return pid;
  }
  void TearDown() override {
    for (int i = 0; i < 1000 && a_; ++i) a_->progress();  // returns the credits they wait for
    others_.clear();
    TransportTest::TearDown();
  }
  Endpoint& replace(pid_t child);

  Peer child_ = 0;
  std::deque<Recorder> all_callbacks_;
  std::vector<std::unique_ptr<Endpoint>> others_;
};

TEST_P(TwoProcesses, EchoOfEverySize) {
  const pid_t pid = fork_peer([](Endpoint& endpoint, Recorder& callbacks, Peer parent) {
    for (int count = 0; count < 200; ++count) {
      while (callbacks.arrived.empty()) endpoint.progress();
      auto& got = callbacks.arrived.front();
      SendOp op;
      op.header = got.header;
      op.iov[0] = {got.payload.data(), got.payload.size()};
      op.iov_count = 1;
      auto sent = endpoint.send(parent, &op);
      if (!sent) _exit(3);
      if (!*sent)
        while (callbacks.sent.empty()) endpoint.progress();
      callbacks.sent.clear();
      callbacks.arrived.pop_front();
    }
  });
  std::mt19937 random(11);
  for (int count = 0; count < 200; ++count) {
    auto data = pattern(random() % (1u << (random() % 20 + 1)), static_cast<unsigned>(count));
    SendOp op = op_of(data, static_cast<std::uint64_t>(count));
    ASSERT_TRUE(a_->send(child_, &op));
    progress_until([&] { return callbacks_a_.arrived.size() == 1; });
    ASSERT_EQ(callbacks_a_.arrived.front().payload, data);
    callbacks_a_.arrived.clear();
  }
  int status = 0;
  progress_until([&] { return waitpid(pid, &status, WNOHANG) == pid; });
  EXPECT_EQ(status, 0);
}

TEST_P(TwoProcesses, NamesKilledPeerWithoutHanging) {
  const pid_t pid = fork_peer([](Endpoint& endpoint, Recorder&, Peer) {
    for (;;) endpoint.progress();
  });
  auto data = pattern(8 << 20, 1);
  SendOp op = op_of(data, 1), delivered = op_of(data, 2);
  delivered.notify_delivered = true;
  ASSERT_TRUE(a_->send(child_, &op));
  progress_until([&] { return callbacks_a_.sent.size() == 1; });
  kill(pid, SIGSTOP);
  ASSERT_FALSE(*a_->send(child_, &delivered));
  kill(pid, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  progress_until([&] { return !callbacks_a_.dead.empty(); });
  EXPECT_EQ(callbacks_a_.failed.size(), 1u);
  EXPECT_NE(callbacks_a_.dead[0].find("rank 2"), std::string::npos) << callbacks_a_.dead[0];
  EXPECT_NE(callbacks_a_.dead[0].find(std::to_string(pid)), std::string::npos)
      << callbacks_a_.dead[0];
  auto again = a_->send(child_, &op);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::peer_dead);
}

TEST_P(TwoProcesses, ReportsClosedPeerAsLeftAfterSlotReuse) {
  const pid_t pid = fork_peer([](Endpoint& endpoint, Recorder&, Peer parent) {
    if (auto sent = endpoint.try_inject(parent, {1, 0, 0, 0}, nullptr); !sent || !*sent) _exit(4);
  });
  while (callbacks_a_.arrived.empty()) a_->progress();
  for (int i = 0; i < 100; ++i) a_->progress();  // returns the credit that the child waits for
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  Recorder callbacks;
  auto later = open(side_b_, callbacks);
  ASSERT_EQ(later->address().slot, child_);
  const std::uint64_t end = base::now_ns() + 100'000'000;
  while (base::now_ns() < end) a_->progress();
  EXPECT_TRUE(callbacks_a_.dead.empty()) << callbacks_a_.dead[0];
}

TEST_P(TwoProcesses, LosesNothingWhenBothClose) {
  const pid_t pid = fork_peer([](Endpoint& endpoint, Recorder& callbacks, Peer parent) {
    std::uint64_t word = 1;
    for (int i = 0; i < 500; ++i)
      if (auto sent = endpoint.try_inject(parent, {7, 0, 8, 0}, &word); !sent || !*sent) _exit(4);
    while (callbacks.arrived.size() < 500) endpoint.progress();
  });
  std::uint64_t word = 2;
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(*a_->try_inject(child_, {8, 0, 8, 0}, &word));
  while (callbacks_a_.arrived.size() < 500) a_->progress();
  const std::uint64_t before = base::now_ns();
  a_.reset();
  EXPECT_LT(base::now_ns() - before, 30'000'000'000u) << "waited for the deadline";
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST_P(TwoProcesses, WaitsForStoppedPeer) {
  const pid_t pid = fork_peer([](Endpoint& endpoint, Recorder& callbacks, Peer) {
    while (callbacks.arrived.empty()) endpoint.progress();
  });
  kill(pid, SIGSTOP);
  auto data = pattern(4 << 20, 1);
  SendOp op = op_of(data, 1);
  op.notify_delivered = true;
  ASSERT_FALSE(*a_->send(child_, &op));
  const std::uint64_t end = base::now_ns() + 300'000'000;
  while (base::now_ns() < end) a_->progress();
  EXPECT_TRUE(callbacks_a_.dead.empty());
  kill(pid, SIGCONT);
  progress_until([&] { return callbacks_a_.sent.size() == 1; });
  int status = 0;
  progress_until([&] { return waitpid(pid, &status, WNOHANG) == pid; });
  EXPECT_EQ(status, 0);
}

/// Gives the killed child's slot to a new endpoint.
Endpoint& TwoProcesses::replace(pid_t child) {
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  const auto most = endpoints_of_pool(processes_) - processes_;  // unused slots come first
  while (others_.size() < most && (others_.empty() || others_.back()->address().slot != child_))
    others_.push_back(open(side_b_, all_callbacks_.emplace_back()));
  EXPECT_EQ(others_.back()->address().slot, child_);
  return *others_.back();
}

TEST_P(TwoProcesses, FailsHalfReceivedMessageOfReplacedSender) {
  const pid_t pid = fork_peer([](Endpoint& endpoint, Recorder&, Peer parent) {
    auto data = pattern(8 << 20, 1);
    SendOp op;
    op.header = {1, 1, data.size(), 5};
    op.iov[0] = {data.data(), data.size()};
    op.iov_count = 1;
    if (auto sent = endpoint.send(parent, &op); !sent || *sent) _exit(3);
    for (;;) pause();
  });
  while (callbacks_a_.begun == 0) a_->progress();
  Endpoint& later = replace(pid);
  ASSERT_TRUE(a_->resolve(later.address()));
  progress_until([&] { return !callbacks_a_.errors.empty(); });
  EXPECT_EQ(callbacks_a_.dead.size(), 1u);
}

TEST_P(TwoProcesses, DeliversUnexpectedLastMessageOfReplacedSender) {
  const pid_t pid = fork_peer([](Endpoint& endpoint, Recorder& callbacks, Peer parent) {
    if (auto sent = endpoint.try_inject(parent, {1, 0, 0, 0}, nullptr); !sent || !*sent) _exit(4);
    while (callbacks.arrived.empty()) endpoint.progress();
    auto data = pattern(64 << 10, 1);
    SendOp op;
    op.header = {2, 1, data.size(), 5};
    op.iov[0] = {data.data(), data.size()};
    op.iov_count = 1;
    if (auto sent = endpoint.send(parent, &op); !sent || !*sent) _exit(3);
    raise(SIGSTOP);
  });
  while (callbacks_a_.arrived.empty()) a_->progress();
  for (int i = 0; i < 50'000; ++i) a_->progress();  // its channel comes to rest
  callbacks_a_.ready = false;
  ASSERT_TRUE(*a_->try_inject(child_, {3, 0, 0, 0}, nullptr));
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status)) << status;
  Endpoint& later = replace(pid);
  ASSERT_TRUE(*later.try_inject(*later.resolve(a_->address()), {4, 0, 0, 0}, nullptr));
  progress_until([&] { return callbacks_a_.arrived.size() == 3; });
  EXPECT_EQ(callbacks_a_.arrived[1].header.tag, 2u);
  EXPECT_EQ(callbacks_a_.arrived[2].header.tag, 4u);
  callbacks_a_.ready = true;
}

/// The watch finds the death before the poller finds the new owner.
TEST_P(TwoProcesses, DeliversLastMessageWhenDeathIsFoundFirst) {
  const pid_t pid = fork_peer([](Endpoint& endpoint, Recorder& callbacks, Peer parent) {
    if (auto sent = endpoint.try_inject(parent, {1, 0, 0, 0}, nullptr); !sent || !*sent) _exit(4);
    while (callbacks.arrived.empty()) endpoint.progress();
    if (auto sent = endpoint.try_inject(parent, {2, 0, 0, 0}, nullptr); !sent || !*sent) _exit(4);
    raise(SIGSTOP);
  });
  std::uint64_t calls = 0;
  const auto step = [&] {
    a_->progress();
    ++calls;
  };
  while (callbacks_a_.arrived.empty()) step();
  for (int i = 0; i < 50'000; ++i) step();                     // its channel is at rest
  ASSERT_TRUE(*b_->try_inject(to_a_, {9, 0, 0, 0}, nullptr));  // another channel is active
  while (callbacks_a_.arrived.size() < 2) step();
  while (calls % 512 != 511) step();  // the next one looks at the clock
  ASSERT_TRUE(*a_->try_inject(child_, {3, 0, 0, 0}, nullptr));
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status)) << status;
  Endpoint& later = replace(pid);
  ASSERT_TRUE(*later.try_inject(*later.resolve(a_->address()), {4, 0, 0, 0}, nullptr));
  usleep(30'000);
  progress_until([&] { return callbacks_a_.arrived.back().header.tag == 4; });
  ASSERT_EQ(callbacks_a_.arrived.size(), 4u) << "the last of the replaced one is lost";
  EXPECT_EQ(callbacks_a_.arrived[2].header.tag, 2u);
}

/// The peer stores its credits later, into memory that gets no new owner until the job has ended.
TEST_P(TwoProcesses, KeepsMemoryUntilPeerReturnsCredits) {
  const pid_t pid = fork_peer(
      [](Endpoint& endpoint, Recorder&, Peer parent) {
        if (auto sent = endpoint.try_inject(parent, {1, 0, 0, 0}, nullptr); !sent || !*sent)
          _exit(4);
      },
      100'000'000);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);  // at its deadline: the message is never taken
  ASSERT_EQ(status, 0);
  pool::AttachOptions of_another_job{.spec = spec_, .job = "other"};
  auto pool = pool::Pool::attach(of_another_job);
  ASSERT_TRUE(pool) << pool.error().message;
  auto arena = arena::Arena::open(**pool);
  ASSERT_TRUE(arena) << arena.error().message;
  const std::string prefix = "penstock.tx." + std::to_string(child_) + ".";
  const auto stays = [&] {
    for (const auto& object : (*arena)->list())
      if (object.name.starts_with(prefix)) return true;
    return false;
  };
  EXPECT_EQ((*arena)->collect()->processes, 0u);
  EXPECT_TRUE(stays()) << "a peer that lives may store there";
  while (callbacks_a_.arrived.empty()) a_->progress();
  b_.reset();
  a_.reset();
  side_a_.detach();
  side_b_.detach();
  EXPECT_EQ((*arena)->collect()->processes, 1u);
  EXPECT_FALSE(stays());
}

INSTANTIATE_TEST_SUITE_P(Modes, TwoProcesses,
                         testing::Values(coherence::Mode::hardware, coherence::Mode::software),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

}  // namespace
}  // namespace penstock::transport
