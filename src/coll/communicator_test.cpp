// Collectives through a real pool: threads that each are a rank with an attachment of their own, on
// one node or on several emulated ones, in hardware and in software mode. Whether the protocol does
// without coherence is shown in sim/.
#include "coll/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "arena/arena.hpp"
#include "base/seed_in_tests.hpp"
#include "coll/test_calls.hpp"
#include "pool/test_pool.hpp"

namespace penstock::coll {
namespace {

using testing::HasSubstr;

constexpr Shape small{.slots = 4, .slot_bytes = 1024, .eager_blocks = 4, .eager_bytes = 6 * 56};

class CommunicatorTest : public testing::Test {
 protected:
  void make_pool(coherence::Mode mode) {
    auto made = pool::create({.spec = spec_,
                              .bytes = 16 << 20,
                              .mode = mode,
                              .max_processes = 16,
                              .max_nodes = 8,
                              .overwrite = true});
    ASSERT_TRUE(made) << made.error().message;
  }
  /// Each of `ranks` threads runs `body` on its side of a communicator.
  void run(std::uint32_t ranks, std::uint32_t nodes, const Shape& shape,
           const std::function<void(Communicator&)>& body, bool check = false) {
    std::vector<std::unique_ptr<pool::Pool>> pools;
    std::vector<std::uint64_t> tokens;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      auto attached = pool::Pool::attach(
          {.spec = spec_, .rank = static_cast<int>(r), .job = "coll", .emulated_node = r % nodes});
      ASSERT_TRUE(attached) << attached.error().message;
      pools.push_back(*std::move(attached));
      tokens.push_back(pools.back()->token());
    }
    auto arena = *arena::Arena::open(*pools[0]);
    const auto area = arena->create("area", Communicator::bytes(ranks, shape));
    ASSERT_TRUE(area) << area.error().message;
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        auto opened = Communicator::open(
            *pools[r],
            {.area = area->offset, .tokens = tokens, .self = r, .shape = shape, .check = check});
        ASSERT_TRUE(opened) << opened.error().message;
        body(**opened);
      });
    }
    for (auto& thread : threads) thread.join();
    ASSERT_TRUE(arena->destroy(*area));
    arena.reset();
  }

  pool::TestFolder folder_;
  std::string spec_ = folder_.file("pool");
};

/// Calls of all kinds, drawn alike on all ranks.
void call_in_turn(Communicator& comm, std::uint64_t seed, int calls) {
  std::mt19937_64 random(seed);
  const WordArithmetic arithmetic;
  for (int i = 0; i < calls; ++i) {
    TestCall w = draw_call(static_cast<Collective>(random() % 11), comm.ranks(), random);
    w.salt = static_cast<std::uint32_t>(random());
    std::vector<Made> made;
    for (std::uint32_t r = 0; r < comm.ranks(); ++r) made.push_back(make(w, r));
    Made& own = made[comm.self()];
    Plan plan = comm.plan(own.problem);
    if (random() % 4 == 0) plan.eager = false;
    if (!plan.eager && w.collective == Collective::reduce && random() % 2 == 0)
      plan.algorithm = Algorithm::two_shot;
    std::vector<std::byte> in = own.input, out = own.output;
    std::byte* const to = own.problem.in_place ? in.data() : out.data();
    const auto done = comm.run({.name = name_of(w.collective),
                                .problem = &own.problem,
                                .plan = plan,
                                .input = in.data(),
                                .output = to,
                                .arithmetic = &arithmetic});
    EXPECT_TRUE(done) << done.error().message;
    if (!done) return;
    EXPECT_EQ(check_result(w, made, comm.self(), own.problem.in_place ? in : out), "")
        << "call " << i << ": " << name_of(w.collective) << (plan.eager ? ", eager" : "");
  }
}

TEST_F(CommunicatorTest, GivesWhatEachCollectivePromises) {
  for (const auto mode : {coherence::Mode::hardware, coherence::Mode::software}) {
    make_pool(mode);
    for (const std::uint32_t ranks : {1u, 2u, 3u, 5u}) {
      for (const std::uint32_t nodes : {1u, 2u, 3u}) {
        if (nodes > ranks) continue;
        SCOPED_TRACE(fmt::format("{}, {} ranks on {} nodes", mode_name(mode), ranks, nodes));
        run(ranks, nodes, small, [](Communicator& comm) {
          call_in_turn(comm, base::seed_in_tests() + comm.ranks(), 80);
        });
        run(
            ranks, nodes, small,
            [](Communicator& comm) {
              call_in_turn(comm, base::seed_in_tests() + comm.ranks(), 20);
            },
            true);
      }
    }
  }
}

std::string error_of(Communicator& comm, Collective collective, std::uint32_t root,
                     std::uint64_t bytes) {
  std::vector<std::byte> data(1000);
  Problem problem{.collective = collective,
                  .ranks = comm.ranks(),
                  .rank = comm.self(),
                  .root = root,
                  .max_block_bytes = bytes};
  const bool has_input = collective != Collective::barrier && comm.self() == root;
  if (has_input) problem.input = {{0, bytes}};
  if (!has_input && collective != Collective::barrier) problem.output = {{0, bytes}};
  const auto done = comm.run({.name = "a call",
                              .problem = &problem,
                              .plan = comm.plan(problem),
                              .input = data.data(),
                              .output = data.data()});
  return done ? "" : done.error().message;
}

TEST_F(CommunicatorTest, NamesRanksThatCallSomethingElse) {
  make_pool(coherence::Mode::software);
  const auto expect = [&](const char* expected,
                          const std::function<std::string(Communicator&)>& call) {
    run(
        2, 2, small,
        [&](Communicator& comm) {
          EXPECT_EQ(error_of(comm, Collective::broadcast, 1, 40), "");
          EXPECT_THAT(call(comm), HasSubstr(expected)) << "on rank " << comm.self();
        },
        true);
  };
  expect(" calls ", [](Communicator& comm) {
    return error_of(comm, comm.self() == 0 ? Collective::barrier : Collective::broadcast, 0, 40);
  });
  expect("broadcast with root ",
         [](Communicator& comm) { return error_of(comm, Collective::broadcast, comm.self(), 40); });
  expect(" of another size or type", [](Communicator& comm) {
    return error_of(comm, Collective::broadcast, 0, 40 + comm.self());
  });
}

/// All it is awaited for is there when a rank leaves.
TEST_F(CommunicatorTest, WhoHasFinishedMayLeave) {
  make_pool(coherence::Mode::software);
  constexpr std::uint64_t bytes = 4000;  // several looks of an eager payload
  std::vector<std::unique_ptr<pool::Pool>> pools;
  std::vector<std::uint64_t> tokens;
  for (int r = 0; r < 2; ++r) {
    pools.push_back(*pool::Pool::attach(
        {.spec = spec_, .rank = r, .job = "coll", .emulated_node = static_cast<std::uint32_t>(r)}));
    tokens.push_back(pools.back()->token());
  }
  const auto arena = *arena::Arena::open(*pools[0]);
  const auto area = *arena->create("area", Communicator::bytes(2, {}));
  std::vector<std::unique_ptr<Communicator>> sides;
  for (std::uint32_t r = 0; r < 2; ++r)
    sides.push_back(
        *Communicator::open(*pools[r], {.area = area.offset, .tokens = tokens, .self = r}));
  Problem problem{.collective = Collective::broadcast, .ranks = 2, .root = 1};
  problem.max_block_bytes = bytes;
  problem.output = {{0, bytes}};
  std::vector<std::byte> got(bytes), sent(bytes, std::byte{7});
  ASSERT_TRUE(sides[0]->begin(
      {.problem = &problem, .plan = sides[0]->plan(problem), .output = got.data()}));
  ASSERT_FALSE(*sides[0]->advance());
  Problem root = problem;
  root.rank = 1;
  root.input.swap(root.output);
  ASSERT_TRUE(sides[1]->run(
      {.problem = &root, .plan = sides[1]->plan(root), .input = sent.data(), .output = nullptr}));
  sides[1].reset();
  pools[1].reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const auto done = sides[0]->advance();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(*done);
  EXPECT_EQ(got, sent);
  sides.clear();
}

TEST_F(CommunicatorTest, ADisagreementAboutTheFormIsFound) {
  make_pool(coherence::Mode::software);
  run(2, 2, small, [&](Communicator& comm) {
    EXPECT_THAT(error_of(comm, Collective::broadcast, 0, comm.self() == 0 ? 20 : 900),
                testing::AnyOf("", HasSubstr("disagree about how much is sent")));
    if (comm.self() == 1) {
      EXPECT_THAT(error_of(comm, Collective::barrier, 0, 0), HasSubstr("disagree"));
    }
  });
}

TEST_F(CommunicatorTest, RefusesWhatCannotBe) {
  make_pool(coherence::Mode::hardware);
  auto pool = *pool::Pool::attach({.spec = spec_});
  const auto message = [&](const Options& options) {
    const auto opened = Communicator::open(*pool, options);
    return opened ? "" : opened.error().message;
  };
  const std::vector<std::uint64_t> one{pool->token()};
  EXPECT_THAT(message({.tokens = one, .shape = {.slots = 6}}), HasSubstr("6 slots"));
  EXPECT_THAT(message({.tokens = one, .shape = {.eager_bytes = 55}}), HasSubstr("of 55 bytes"));
  EXPECT_THAT(message({.tokens = one, .self = 1}),
              HasSubstr("rank 1 of a communicator of 1 ranks"));
  EXPECT_THAT(message({.area = 15 << 20, .tokens = one}), HasSubstr("and the pool has"));
}

}  // namespace
}  // namespace penstock::coll
