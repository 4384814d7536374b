// Queued collectives through a real pool. Each rank is a thread, with a second thread that drives
// its queue.
#include "coll/queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "arena/arena.hpp"
#include "pool/test_pool.hpp"

namespace penstock::coll::queue_test {
namespace {

constexpr Shape small{.slots = 4, .slot_bytes = 1024, .eager_blocks = 4, .eager_bytes = 6 * 56};
constexpr std::uint32_t ranks = 2;

class QueueTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(pool::create({.spec = spec_,
                              .bytes = 16 << 20,
                              .mode = coherence::Mode::software,
                              .max_processes = 16,
                              .max_nodes = 8,
                              .overwrite = true}));
    for (std::uint32_t r = 0; r < ranks; ++r) {
      pools_.push_back(*pool::Pool::attach(
          {.spec = spec_, .rank = static_cast<int>(r), .job = "queue", .emulated_node = r}));
      tokens_.push_back(pools_.back()->token());
    }
    arena_ = *arena::Arena::open(*pools_[0]);
    area_ = *arena_->create("area", Communicator::bytes(ranks, small));
  }
  void run(const std::function<void(Communicator&, CallQueue&)>& body) {
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        auto comm = *Communicator::open(
            *pools_[r], {.area = area_.offset, .tokens = tokens_, .self = r, .shape = small});
        CallQueue queue(*comm);
        std::atomic<bool> through{false};
        std::thread driver([&] {
          while (!through) {
            queue.advance();
            std::this_thread::yield();
          }
        });
        body(*comm, queue);
        through = true;
        driver.join();
      });
    }
    for (auto& thread : threads) thread.join();
  }

  pool::TestFolder folder_;
  std::string spec_ = folder_.file("pool");
  std::vector<std::unique_ptr<pool::Pool>> pools_;
  std::vector<std::uint64_t> tokens_;
  std::unique_ptr<arena::Arena> arena_;
  arena::Object area_;
};

/// A broadcast of `bytes` equal bytes.
struct Broadcast {
  Broadcast(const Communicator& comm, std::uint32_t root, std::byte value, std::uint64_t bytes)
      : data(bytes, comm.self() == root ? value : std::byte{}), wanted(value) {
    problem = {.collective = Collective::broadcast,
               .ranks = ranks,
               .rank = comm.self(),
               .root = root,
               .max_block_bytes = bytes};
    (comm.self() == root ? problem.input : problem.output) = {{0, bytes}};
    queued.call = {.name = "a broadcast",
                   .problem = &problem,
                   .plan = comm.plan(problem),
                   .input = data.data(),
                   .output = data.data()};
  }
  bool came() const { return data == std::vector<std::byte>(data.size(), wanted); }

  Problem problem;
  std::vector<std::byte> data;
  std::byte wanted;
  QueuedCall queued;
};

TEST_F(QueueTest, CallsAreDoneInTheirOrder) {
  run([](Communicator& comm, CallQueue& queue) {
    std::vector<std::shared_ptr<Broadcast>> begun;
    for (unsigned turn = 0; turn < 60; ++turn) {
      const std::uint64_t bytes = turn % 3 == 0 ? 20'000 : 40;
      auto call = std::make_shared<Broadcast>(comm, turn % ranks, std::byte(turn + 1), bytes);
      if (turn % 7 == 6) {
        ASSERT_TRUE(queue.run(call->queued.call));
        EXPECT_EQ(queue.outstanding(), 0u);
        EXPECT_TRUE(call->came());
        for (const auto& before : begun) EXPECT_TRUE(before->queued.over && before->came());
        begun.clear();
        continue;
      }
      ASSERT_TRUE(queue.prepare(call->queued));
      queue.push({call, &call->queued});
      begun.push_back(call);
      if (turn % 5 != 4) continue;
      queue.wait("the last", [&] { return call->queued.over.load(); });
      for (const auto& before : begun) EXPECT_TRUE(before->queued.over && before->came());
    }
    queue.drain("the end");
    for (const auto& call : begun) EXPECT_TRUE(call->came() && !call->queued.error);
  });
}

/// `over` may have side effects: in MPI_Waitany it calls the MPI, which ends a request each time.
TEST_F(QueueTest, StopsAskingOnceAWaitIsOver) {
  const auto open = [&](std::uint32_t self) {
    return *Communicator::open(
        *pools_[self], {.area = area_.offset, .tokens = tokens_, .self = self, .shape = small});
  };
  auto comm = open(0);
  open(1).reset();
  CallQueue queue(*comm);
  auto call = std::make_shared<Broadcast>(*comm, 1, std::byte{1}, 40);
  ASSERT_TRUE(queue.prepare(call->queued));
  queue.push({call, &call->queued});
  std::thread leaver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pools_[1].reset();
  });
  bool ended = false;
  queue.wait("one that goes", [&] {
    EXPECT_FALSE(ended);
    ended = call->queued.over;
    return ended;
  });
  leaver.join();
  EXPECT_TRUE(call->queued.error);
}

TEST_F(QueueTest, WhatCannotBeIsNotQueued) {
  run([](Communicator& comm, CallQueue& queue) {
    Broadcast call(comm, 0, std::byte{1}, 40);
    call.queued.call.plan.eager = false;
    call.queued.call.plan.algorithm = Algorithm::two_shot;
    const auto prepared = queue.prepare(call.queued);
    ASSERT_FALSE(prepared);
    EXPECT_EQ(prepared.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(queue.outstanding(), 0u);
    EXPECT_FALSE(queue.advance());
  });
}

/// A schedule must survive while many others are prepared during its call.
TEST_F(QueueTest, SchedulesStayAsLongAsTheyAreNeeded) {
  run([](Communicator& comm, CallQueue& queue) {
    std::vector<std::shared_ptr<Broadcast>> begun;
    for (unsigned turn = 0; turn < 50; ++turn) {
      auto call = std::make_shared<Broadcast>(comm, 0, std::byte(turn + 1), 8 * (turn + 1));
      ASSERT_TRUE(queue.prepare(call->queued));
      begun.push_back(std::move(call));
    }
    for (const auto& call : begun) queue.push({call, &call->queued});
    queue.drain("the end");
    for (const auto& call : begun) EXPECT_TRUE(call->came() && !call->queued.error);
  });
}

TEST_F(QueueTest, AfterADeathAllFail) {
  auto comm = *Communicator::open(
      *pools_[0], {.area = area_.offset, .tokens = tokens_, .self = 0, .shape = small});
  CallQueue queue(*comm);
  std::array<std::shared_ptr<Broadcast>, 3> calls;
  for (auto& call : calls) {
    call = std::make_shared<Broadcast>(*comm, 1, std::byte{1}, 40);
    ASSERT_TRUE(queue.prepare(call->queued));
    queue.push({call, &call->queued});
  }
  pools_[1].reset();
  queue.wait("the last", [&] { return calls.back()->queued.over.load(); });
  for (const auto& call : calls) {
    ASSERT_TRUE(call->queued.error);
    EXPECT_EQ(call->queued.error->code, ErrorCode::peer_dead);
    EXPECT_THAT(call->queued.error->message, testing::HasSubstr("rank 1"));
  }
  EXPECT_EQ(queue.outstanding(), 0u);
}

}  // namespace
}  // namespace penstock::coll::queue_test
