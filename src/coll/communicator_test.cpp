// Collectives through a real pool. Each rank is a thread with its own attachment. The ranks are on
// one node or on several emulated nodes, in hardware and in software mode. The tests in sim/ show
// that the protocol works without coherence.
#include "coll/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "arena/arena.hpp"
#include "base/seed_in_tests.hpp"
#include "coll/agreement.hpp"
#include "coll/fingerprint.hpp"
#include "pool/test_pool.hpp"
#include "schedule/test_calls.hpp"
#include "schedule/uniform.hpp"

namespace penstock::coll {
namespace {

using testing::HasSubstr;

constexpr Shape small{.slots = 4, .slot_bytes = 1024, .eager_blocks = 4, .eager_bytes = 6 * 56};

class CommunicatorTest : public testing::Test {
 protected:
  void make_pool(coherence::Mode mode) {
    auto made = pool::create({.spec = spec_,
                              .bytes = 48 << 20,
                              .mode = mode,
                              .max_processes = 16,
                              .max_nodes = 8,
                              .overwrite = true});
    ASSERT_TRUE(made) << made.error().message;
  }
  /// Runs `body` in `ranks` threads, each with its own side of a communicator.
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
    std::vector<arena::Object> slot_areas;
    Options options{.area = area->offset, .tokens = tokens, .shape = shape, .check = check};
    for (const SlotArea& wanted : Communicator::slot_areas(ranks, shape)) {
      const auto made = arena->create(fmt::format("slots {}", slot_areas.size()), wanted.bytes,
                                      {.part = wanted.device % pools[0]->info().striping.parts});
      ASSERT_TRUE(made) << made.error().message;
      slot_areas.push_back(*made);
      options.slot_areas.push_back(made->offset);
    }
    for (std::uint32_t r = 0; r < ranks; ++r) options.nodes.push_back(r % nodes);
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        Options own = options;
        own.self = r;
        auto opened = Communicator::open(*pools[r], own);
        ASSERT_TRUE(opened) << opened.error().message;
        body(**opened);
      });
    }
    for (auto& thread : threads) thread.join();
    ASSERT_TRUE(arena->destroy(*area));
    for (const auto& object : slot_areas) ASSERT_TRUE(arena->destroy(object));
    arena.reset();
  }

  pool::TestFolder folder_;
  std::string spec_ = folder_.file("pool");
  std::string three_parts() const {
    return fmt::format("{},{},{}", folder_.file("a"), folder_.file("b"), folder_.file("c"));
  }
};

/// Makes calls of all kinds, drawn alike on all ranks.
void call_in_turn(Communicator& comm, std::uint64_t seed, int calls) {
  std::mt19937_64 random(seed);
  const WordArithmetic arithmetic;
  for (int i = 0; i < calls; ++i) {
    TestCall w = draw_call(any_collective(random), comm.ranks(), random);
    w.salt = static_cast<std::uint32_t>(random());
    std::vector<Made> made = make_all(w);
    Made& own = made[comm.self()];
    Plan plan = comm.plan(own.problem);
    const Plan drawn = draw_plan(w.collective, comm.ranks(), random);
    if (random() % 2 == 0) plan = drawn;
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

/// Slots on 1 to 6 devices. The areas are shorter than one device's share of the slots.
TEST_F(CommunicatorTest, GivesTheSameOnSeveralDevices) {
  spec_ = three_parts();
  make_pool(coherence::Mode::software);
  for (const std::uint32_t devices : {2u, 3u, 6u}) {
    for (const std::uint32_t ranks : {2u, 4u}) {
      SCOPED_TRACE(fmt::format("{} devices, {} ranks", devices, ranks));
      Shape shape = small;
      shape.devices = devices;
      shape.area_slots = 5;
      shape.sequential = true;
      run(ranks, std::min(2u, ranks), shape,
          [](Communicator& comm) { call_in_turn(comm, base::seed_in_tests() + comm.ranks(), 40); });
    }
  }
}

/// Broadcasts one chunk for each device and checks where its bytes lie.
TEST_F(CommunicatorTest, SpreadsChunksOfARootOverAllParts) {
  spec_ = three_parts();
  make_pool(coherence::Mode::software);
  Shape shape = small;
  shape.devices = 3;
  shape.area_slots = 8;
  run(2, 2, shape, [&](Communicator& comm) {
    const std::uint64_t bytes = 3 * shape.slot_bytes;
    std::vector<std::byte> data(bytes);
    for (std::uint64_t i = 0; i < bytes; ++i)
      data[i] = comm.self() == 0 ? std::byte(0xd0 + i / shape.slot_bytes) : std::byte{};
    Problem problem{.collective = Collective::broadcast, .ranks = 2, .rank = comm.self()};
    problem.max_block_bytes = bytes;
    (comm.self() == 0 ? problem.input : problem.output) = {{0, bytes}};
    const auto done = comm.run({.problem = &problem,
                                .plan = {.slot_bytes = shape.slot_bytes},
                                .input = data.data(),
                                .output = data.data()});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(data[bytes - 1], std::byte{0xd2});
  });
  for (const char* name : {"a", "b", "c"}) {
    std::ifstream file(folder_.file(name), std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(file)), {});
    int here = 0;
    for (int i = 0; i < 3; ++i)
      here += content.find(std::string(shape.slot_bytes, static_cast<char>(0xd0 + i))) !=
              std::string::npos;
    EXPECT_EQ(here, 1) << "one of the three chunks lies in file " << name;
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
  expect("broadcast of 40 bytes with root ",
         [](Communicator& comm) { return error_of(comm, Collective::broadcast, comm.self(), 40); });
  expect("bytes with root 0, and this rank broadcast of 4", [](Communicator& comm) {
    return error_of(comm, Collective::broadcast, 0, 40 + comm.self());
  });
}

/// Runs an allreduce of `bytes` in elements of 4 bytes, with `reduction` as its fingerprint.
std::string error_of_sum(Communicator& comm, std::uint64_t bytes, std::uint64_t reduction) {
  const WordArithmetic arithmetic;
  std::vector<std::byte> in(bytes), out(bytes);
  const Problem problem{.collective = Collective::allreduce,
                        .ranks = comm.ranks(),
                        .rank = comm.self(),
                        .element_bytes = test_word,
                        .input = {{0, bytes}},
                        .output = {{0, bytes}},
                        .max_block_bytes = bytes};
  const auto done = comm.run({.name = "the sum",
                              .problem = &problem,
                              .plan = comm.plan(problem),
                              .input = in.data(),
                              .output = out.data(),
                              .arithmetic = &arithmetic,
                              .fingerprint = reduction});
  return done ? "" : done.error().message;
}

/// The rank may instead report that another one has failed first.
auto says(const char* what) {
  return testing::AnyOf(HasSubstr(what), HasSubstr("has given the communicator up"));
}

TEST_F(CommunicatorTest, FailsOnAllRanksWhenReductionsDiffer) {
  const auto floats = reduction_word(Datatype::float32, Operation::sum);
  for (const auto mode : {coherence::Mode::hardware, coherence::Mode::software}) {
    for (const std::uint64_t bytes : {12u, 40'000u}) {
      SCOPED_TRACE(fmt::format("{}, {} bytes", mode_name(mode), bytes));
      make_pool(mode);
      run(3, 3, small, [&](Communicator& comm) {
        EXPECT_EQ(error_of_sum(comm, bytes, floats), "");
        EXPECT_THAT(error_of_sum(comm, bytes + test_word * comm.self(), floats),
                    says(" and this rank "));
      });
      run(3, 3, small, [&](Communicator& comm) {
        const auto integers = reduction_word(Datatype::int32, Operation::sum);
        const char* const theirs = comm.self() == 1 ? "float32 by sum, and" : "int32 by sum, and";
        EXPECT_THAT(error_of_sum(comm, bytes, comm.self() == 1 ? integers : floats), says(theirs));
      });
    }
  }
}

TEST_F(CommunicatorTest, TellsALateRankWhatDiffers) {
  make_pool(coherence::Mode::software);
  for (const std::uint64_t bytes : {12u, 40'000u}) {
    std::atomic<int> ended{0};
    run(3, 3, small, [&](Communicator& comm) {
      while (comm.self() == 2 && ended != 2) std::this_thread::yield();
      const auto message = error_of_sum(comm, bytes + test_word * (comm.self() == 1 ? 1 : 0), 0);
      ++ended;
      if (comm.self() == 2) {
        EXPECT_THAT(message, HasSubstr("rank 1 of the communicator"));
        EXPECT_THAT(message, HasSubstr("elements, and this rank allreduce of "));
      }
    });
  }
}

/// No rank waits for another in the call that differs.
TEST_F(CommunicatorTest, NamesTwoRootsInTheNextCall) {
  make_pool(coherence::Mode::software);
  for (const Collective collective : {Collective::broadcast, Collective::gather}) {
    run(2, 2, small, [&](Communicator& comm) {
      const std::uint32_t root =
          collective == Collective::broadcast ? comm.self() : 1 - comm.self();
      std::vector<std::byte> data(100);
      Problem problem{.collective = collective,
                      .ranks = 2,
                      .rank = comm.self(),
                      .root = root,
                      .input = {{0, 40}},
                      .max_block_bytes = 40};
      const auto done = comm.run({.problem = &problem,
                                  .plan = comm.plan(problem),
                                  .input = data.data(),
                                  .output = data.data()});
      EXPECT_TRUE(done) << done.error().message;
      EXPECT_THAT(error_of(comm, Collective::barrier, 0, 0), says("1 call ago called "));
    });
  }
}

TEST_F(CommunicatorTest, NamesTwoRootsOfTheLastCall) {
  make_pool(coherence::Mode::software);
  testing::internal::CaptureStderr();
  run(2, 2, small, [&](Communicator& comm) {
    std::vector<std::byte> data(100);
    const Problem problem{.collective = Collective::broadcast,
                          .ranks = 2,
                          .rank = comm.self(),
                          .root = comm.self(),
                          .input = {{0, 40}},
                          .max_block_bytes = 40};
    EXPECT_TRUE(comm.run({.problem = &problem,
                          .plan = comm.plan(problem),
                          .input = data.data(),
                          .output = data.data()}));
    comm.leave();
    if (comm.self() == 0) {
      EXPECT_TRUE(comm.await_all_left("the end"));
    }
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("calls broadcast of 40 bytes with root 1, and this rank broadcast of 40 "
                        "bytes with root 0"));
}

/// Rank 1 waits for rank 2, which waits for rank 1 in the next call. Neither writes anything.
TEST_F(CommunicatorTest, FailsRanksThatWaitInDifferentCalls) {
  make_pool(coherence::Mode::software);
  run(3, 3, small, [&](Communicator& comm) {
    const std::uint32_t root = comm.self() == 1 ? 2 : 0;
    const std::string first = error_of(comm, Collective::broadcast, root, 40);
    if (comm.self() == 0) return;
    EXPECT_EQ(first == "", comm.self() == 2) << first;
    const std::string second = error_of(comm, Collective::broadcast, 1, 40);
    EXPECT_THAT(comm.self() == 1 ? first : second, says(" and "));
  });
}

/// One rank makes a call by other means. The other rank makes none.
TEST_F(CommunicatorTest, NamesACallMadeElsewhere) {
  make_pool(coherence::Mode::software);
  std::atomic<bool> notified{false};
  run(2, 2, small, [&](Communicator& comm) {
    comm.note_elsewhere(true);
    EXPECT_EQ(error_of(comm, Collective::barrier, 0, 0), "");
    if (comm.self() == 1) {
      comm.note_elsewhere(true);
      while (!notified.load()) std::this_thread::yield();
      return;
    }
    EXPECT_THAT(error_of(comm, Collective::barrier, 0, 0),
                HasSubstr("makes a call that the pool cannot do"));
    notified.store(true);
  });
}

/// Rank 1 has left a call by other means while rank 0 is still in it.
TEST_F(CommunicatorTest, IgnoresACallElsewhereThatHasEnded) {
  make_pool(coherence::Mode::software);
  std::atomic<bool> waits{false};
  run(2, 2, small, [&](Communicator& comm) {
    comm.note_elsewhere(true);
    if (comm.self() == 1) waits.store(true);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (comm.self() == 0 && (!waits.load() || std::chrono::steady_clock::now() < deadline))
      std::this_thread::yield();
    EXPECT_EQ(error_of(comm, Collective::barrier, 0, 0), "");
  });
}

/// Rank 1 sends 8 bytes to rank 2, which expects another size from rank 1.
TEST_F(CommunicatorTest, NamesTwoRanksWhoseSizesDiffer) {
  constexpr std::uint32_t ranks = 3, sender = 1, receiver = 2;
  const auto error_with = [](Communicator& comm, Collective collective, std::uint64_t expected) {
    const std::uint32_t root = collective == Collective::gather ? receiver : sender;
    Problem problem = uniform_problem(collective, ranks, comm.self(), root, 8);
    problem.max_block_bytes.reset();
    if (comm.self() == receiver) {
      const bool of_each = problem.output.size() == ranks;
      problem.output[of_each ? sender : 0].bytes = expected;
      if (collective == Collective::reduce_scatter) problem.input[receiver].bytes = expected;
    }
    const WordArithmetic arithmetic;
    std::vector<std::byte> in(200), out(200);
    const auto done = comm.run({.name = "a call",
                                .problem = &problem,
                                .plan = comm.plan(problem),
                                .input = in.data(),
                                .output = out.data(),
                                .arithmetic = &arithmetic});
    return done ? "" : done.error().message;
  };
  for (const auto mode : {coherence::Mode::hardware, coherence::Mode::software}) {
    make_pool(mode);
    for (const auto collective : {Collective::alltoall, Collective::gather, Collective::scatter,
                                  Collective::allgather, Collective::reduce_scatter}) {
      for (const std::uint64_t expected : {0u, 4u, 12u}) {
        SCOPED_TRACE(fmt::format("{}, {}", name_of(collective), expected));
        run(
            ranks, 2, small,
            [&](Communicator& comm) {
              EXPECT_EQ(error_with(comm, collective, 8), "");
              const std::string found = error_with(comm, collective, expected);
              // In a reduction all ranks send the wrong size to rank 2, so the first one is named.
              const auto first = collective == Collective::reduce_scatter ? 0 : sender;
              EXPECT_THAT(found, HasSubstr(fmt::format("a call: rank {} sends 8 bytes to rank 2, "
                                                       "which expects {}:",
                                                       first, expected)));
            },
            true);
      }
    }
  }
}

/// When a rank leaves, everything that others await from it is there.
TEST_F(CommunicatorTest, WhoHasFinishedMayLeave) {
  make_pool(coherence::Mode::software);
  constexpr std::uint64_t bytes = 4000;  // one poll does not read it all
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
                testing::AnyOf("", HasSubstr("calls broadcast of 20 bytes with root 0, and")));
    if (comm.self() == 1) {
      EXPECT_THAT(error_of(comm, Collective::barrier, 0, 0), HasSubstr("broadcast of 900 bytes"));
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
  EXPECT_THAT(message({.area = 47 << 20, .tokens = one}), HasSubstr("and the pool has"));
  EXPECT_THAT(message({.tokens = one, .shape = {.devices = 0}}), HasSubstr("slots on 0 devices"));
  EXPECT_THAT(message({.tokens = one, .shape = {.devices = 2}}), HasSubstr("2 devices, 0 to an"));
  const Shape two{.devices = 2, .area_slots = 64};
  EXPECT_THAT(message({.tokens = one, .shape = two}),
              HasSubstr("0 areas for slots; 2 are needed on 2 devices"));
  EXPECT_THAT(message({.slot_areas = {0, 48 << 20}, .tokens = one, .shape = two}),
              HasSubstr("bytes at offset 50331648, on a line, and the pool has"));
  EXPECT_THAT(message({.slot_areas = {32, 0}, .tokens = one, .shape = two}),
              HasSubstr("bytes at offset 32, on a line"));
  Options fits{.slot_areas = {0, 1 << 20}, .tokens = one, .shape = two};
  const auto opened = *Communicator::open(*pool, fits);
  const Problem problem{.collective = Collective::barrier};
  const auto naive =
      opened->run({.name = "a call", .problem = &problem, .plan = {.variant = Variant::naive}});
  EXPECT_THAT(naive.error().message, HasSubstr("a call: the variant naive needs slots of its own"));
}

/// A large training job makes this many groups. The first have long slots, the last short ones.
TEST_F(CommunicatorTest, FiftyGroupsFitIntoASmallPool) {
  constexpr std::uint32_t ranks = 4;
  ASSERT_TRUE(pool::create({.spec = spec_, .bytes = 192 << 20, .sparse = true}));
  const auto pool = *pool::Pool::attach({.spec = spec_});
  const auto arena = *arena::Arena::open(*pool);
  std::vector<std::unique_ptr<Agreement>> groups;
  for (int i = 0; i < 50; ++i) {
    groups.push_back(std::make_unique<Agreement>(ranks, 0));
    const auto made = groups.back()->offer(space_in(*arena, fmt::format("group {}", i)), {});
    ASSERT_TRUE(made) << "group " << i << ": " << made.error().message;
  }
  EXPECT_GT(groups.front()->own().slot_bytes, groups.back()->own().slot_bytes);
  for (const auto& group : groups) group->give_back();
}

}  // namespace
}  // namespace penstock::coll
