// Slots that are allocated at a communicator's first long call. Each rank is a thread with its own
// attachment, in software mode. sim/tests/ending_test.cpp covers deaths.
#include "coll/late_slots.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstring>
#include <thread>

#include "coll/agreement.hpp"
#include "coll/ending.hpp"
#include "coll/queue.hpp"
#include "pool/test_pool.hpp"

namespace penstock::coll {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint32_t ranks = 3;
constexpr std::uint64_t long_bytes = 300'000;

class LateSlotsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(pool::create({.spec = spec_,
                              .bytes = 48 << 20,
                              .mode = coherence::Mode::software,
                              .max_processes = 16,
                              .max_nodes = 8}));
    for (std::uint32_t r = 0; r < ranks; ++r) {
      // Ranks 0 and 1 are on one node.
      pools_.push_back(*pool::Pool::attach({.spec = spec_,
                                            .rank = static_cast<int>(r),
                                            .job = "late slots",
                                            .emulated_node = r / 2}));
      arenas_.push_back(*arena::Arena::open(*pools_.back()));
    }
  }

  /// Runs `body` on each rank's side of a communicator.
  void run(const std::function<void(Communicator&)>& body) {
    std::vector<Offer> offers(ranks);
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        Agreement agreement(ranks, r);
        const auto made = agreement.offer(space_in(*arenas_[r], "communicator"), wishes_);
        ASSERT_TRUE(made) << made.error().message;
        offers[r] = agreement.own();
        all_.arrive_and_wait();
        const Options options = agreement.options(*pools_[r], offers);
        if (r == 0) words_ = options.area;
        const auto areas = *agreement.areas(offers);
        (void)agreement.take_areas();
        const auto comm = *Communicator::open(*pools_[r], options);
        all_.arrive_and_wait();
        body(*comm);
        end(*arenas_[r], *comm, options.tokens, areas);
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(arenas_[0]->stats().objects, ballast_ ? 1u : 0u) << "all have left";
  }
  /// Runs `step` on rank 0 while all ranks wait at the same point of their bodies.
  void once(const Communicator& comm, const std::function<void()>& step) {
    all_.arrive_and_wait();
    if (comm.self() == 0) step();
    all_.arrive_and_wait();
  }
  void leave_free(std::uint64_t bytes) {
    const auto made = arenas_[0]->create("ballast", arenas_[0]->stats().bytes_largest_free - bytes,
                                         {.zero = false});
    ASSERT_TRUE(made) << made.error().message;
    ballast_ = true;
  }
  std::uint64_t used() const { return arenas_[0]->stats().bytes_used; }

  pool::TestFolder folder_;
  std::string spec_ = folder_.file("pool");
  std::vector<std::unique_ptr<pool::Pool>> pools_;
  std::vector<std::unique_ptr<arena::Arena>> arenas_;
  std::barrier<> all_{ranks};
  Agreement::Wishes wishes_{.late_slots = true};
  bool ballast_ = false;
  std::uint64_t words_ = 0;  ///< offset of the words
};

/// A broadcast of `bytes` equal bytes.
struct Broadcast {
  Broadcast(const Communicator& comm, std::uint32_t root, std::uint64_t bytes)
      : wanted(bytes, std::byte(root + 1)), data(bytes) {
    problem = {.collective = Collective::broadcast,
               .ranks = ranks,
               .rank = comm.self(),
               .root = root,
               .max_block_bytes = bytes};
    (comm.self() == root ? problem.input : problem.output) = {{0, bytes}};
    if (comm.self() == root) data = wanted;
    queued.call = {.name = "a broadcast",
                   .problem = &problem,
                   .plan = comm.plan(problem),
                   .input = data.data(),
                   .output = data.data()};
  }
  bool came() const { return data == wanted; }

  Problem problem;
  std::vector<std::byte> wanted, data;
  QueuedCall queued;
};

Result<void> broadcast(Communicator& comm, std::uint32_t root, std::uint64_t bytes) {
  const Broadcast call(comm, root, bytes);
  auto done = comm.run(call.queued.call);
  EXPECT_TRUE(!done || call.came()) << bytes << " bytes of root " << root;
  return done;
}

TEST_F(LateSlotsTest, ComeAtTheFirstLongCallAlone) {
  run([this](Communicator& comm) {
    std::uint64_t before = 0;
    once(comm, [&] { before = used(); });
    const Problem barrier{.collective = Collective::barrier, .ranks = ranks, .rank = comm.self()};
    for (const auto algorithm : {Algorithm::one_shot, Algorithm::leaders})
      EXPECT_TRUE(comm.run({.problem = &barrier, .plan = {.algorithm = algorithm}}));
    for (std::uint32_t root = 0; root < ranks; ++root) EXPECT_TRUE(broadcast(comm, root, 700));
    EXPECT_FALSE(comm.taken_slots());
    once(comm, [&] { EXPECT_EQ(used(), before); });
    for (std::uint32_t root = 0; root < ranks; ++root)
      EXPECT_TRUE(broadcast(comm, ranks - 1 - root, long_bytes));
    const auto taken = comm.taken_slots();
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->slot_bytes, comm.shape().slot_bytes);
    once(comm, [&] {
      const std::uint64_t slots = ranks * 2 * comm.shape().slots;
      EXPECT_GE(used(), before + slots * taken->slot_bytes);
    });
  });
}

TEST_F(LateSlotsTest, AreShorterWhereLessIsLeftByThen) {
  run([this](Communicator& comm) {
    once(comm, [this] { leave_free(8 << 20); });
    // The plans of all calls were made for longer slots.
    CallQueue queue(comm);
    std::vector<std::shared_ptr<Broadcast>> begun;
    for (std::uint32_t root = 0; root < ranks; ++root) {
      begun.push_back(std::make_shared<Broadcast>(comm, root, long_bytes));
      EXPECT_TRUE(queue.prepare(begun.back()->queued));
      queue.push({begun.back(), &begun.back()->queued});
    }
    queue.drain("the calls");
    for (const auto& call : begun) {
      EXPECT_FALSE(call->queued.error) << call->queued.error->message;
      EXPECT_TRUE(call->came());
    }
    ASSERT_TRUE(comm.taken_slots());
    EXPECT_LT(comm.taken_slots()->slot_bytes, comm.shape().slot_bytes);
    EXPECT_TRUE(broadcast(comm, 1, long_bytes));
  });
}

TEST_F(LateSlotsTest, FailOnAllRanksWithoutRoom) {
  std::array<std::string, ranks> said;
  run([&](Communicator& comm) {
    EXPECT_TRUE(broadcast(comm, 1, 700));
    once(comm, [this] { leave_free(200 << 10); });
    const auto done = broadcast(comm, 1, long_bytes);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::no_space);
    said[comm.self()] = done.error().message;
    const auto later = broadcast(comm, 2, 700);
    ASSERT_FALSE(later) << "after an error a communicator makes no call";
    EXPECT_EQ(later.error().message, done.error().message);
  });
  EXPECT_THAT(said[0], AllOf(HasSubstr("a broadcast: rank 0"), HasSubstr("found no room for"),
                             HasSubstr("384 KiB"), HasSubstr("the largest free space is")));
  for (const std::string& one : said) EXPECT_EQ(one, said[0]);
}

TEST_F(LateSlotsTest, AreAwaitedWithoutBlocking) {
  run([this](Communicator& comm) {
    const Broadcast call(comm, 1, long_bytes);
    if (comm.self() != 0) {
      ASSERT_TRUE(comm.begin(call.queued.call));
      const auto done = comm.advance();
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_FALSE(*done) << "there are no slots yet";
      EXPECT_EQ(comm.awaited(), std::vector<std::uint32_t>{0});
    }
    all_.arrive_and_wait();
    if (comm.self() == 0) {
      ASSERT_TRUE(comm.begin(call.queued.call));
    }
    for (;;) {
      const auto done = comm.advance();
      ASSERT_TRUE(done) << done.error().message;
      if (*done) break;
      std::this_thread::yield();
    }
    EXPECT_TRUE(call.came());
  });
}

TEST_F(LateSlotsTest, ComeWhenAllAskForThem) {
  run([](Communicator& comm) {
    const auto obtained = comm.await_slots("a group");
    EXPECT_TRUE(obtained) << obtained.error().message;
    EXPECT_TRUE(comm.taken_slots());
    EXPECT_TRUE(broadcast(comm, 2, long_bytes));
  });
}

/// The ranks check the published lines before they use them.
TEST_F(LateSlotsTest, RefuseAPlaceOutsideThePool) {
  run([this](Communicator& comm) {
    once(comm, [&] {
      const Layout layout(ranks, comm.shape());
      const std::array<std::uint64_t, 7> announcement{pools_[0]->bytes() - 64, 1, 0, 4096};
      std::array<std::byte, late_slots_lines * coherence::tagged_bytes> lines{};
      std::memcpy(lines.data(), announcement.data(), sizeof announcement);
      pools_[0]->memory().publish_tagged(pools_[0]->base() + words_ + layout.late_slots(),
                                         lines.data(), lines.size(), 1);
      pools_[0]->memory().full_fence();
    });
    if (comm.self() == 0) return;
    const auto done = broadcast(comm, 1, long_bytes);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("they cannot be there: the pool was damaged"));
  });
}

}  // namespace
}  // namespace penstock::coll
