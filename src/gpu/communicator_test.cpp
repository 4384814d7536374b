// Collectives of GPUs through a real pool, on the stand-in GPU, whose memory the host cannot touch
// and whose streams run at their own pace: threads that each are a rank.
#include "gpu/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/seed_in_tests.hpp"
#include "coll/direct.hpp"
#include "coll/test_calls.hpp"
#include "gpu/test_ranks.hpp"

namespace penstock::gpu {
namespace {

using coll::Collective;
using testing::HasSubstr;

/// Calls that only move, drawn alike on all ranks; several on their way at once.
void move_in_turn(const Rank& rank, std::uint64_t seed, int calls) {
  struct Pending {
    coll::TestCall call;
    std::vector<coll::Made> made;
    std::unique_ptr<DeviceBytes> in, out;
  };
  std::mt19937_64 random(seed);
  std::vector<Pending> pending;
  for (int i = 0; i < calls; ++i) {
    Pending p;
    p.call = coll::draw_call(static_cast<Collective>(random() % 6), rank.core.ranks(), random);
    p.call.salt = static_cast<std::uint32_t>(random());
    for (std::uint32_t r = 0; r < rank.core.ranks(); ++r) p.made.push_back(make(p.call, r));
    const coll::Made& own = p.made[rank.core.self()];
    p.in = std::make_unique<DeviceBytes>(rank.device, own.input, rank.stream);
    p.out = std::make_unique<DeviceBytes>(rank.device, own.output, rank.stream);
    const bool in_place = own.problem.in_place;
    const auto done = rank.gpu.enqueue({.name = name_of(p.call.collective),
                                        .problem = own.problem,
                                        .input = p.in->at(),
                                        .output = in_place ? p.in->at() : p.out->at()},
                                       rank.stream);
    ASSERT_TRUE(done) << done.error().message;
    pending.push_back(std::move(p));
  }
  for (const Pending& p : pending) {
    const bool in_place = p.made[rank.core.self()].problem.in_place;
    EXPECT_EQ(check_result(p.call, p.made, rank.core.self(), (in_place ? p.in : p.out)->read()), "")
        << name_of(p.call.collective);
  }
  const auto drained = rank.gpu.drain();
  EXPECT_TRUE(drained) << drained.error().message;
}

/// Modes of a pool, and the form that a communicator has there.
struct Form {
  coherence::Mode mode;
  coll::Shape shape;
};
coll::Shape small_direct() {
  coll::Shape shape = small;
  shape.direct = true;
  return shape;
}
const Form forms[] = {{coherence::Mode::software, small},
                      {coherence::Mode::hardware, small},
                      {coherence::Mode::hardware, small_direct()},
                      {coherence::Mode::uncached, small_direct()}};

TEST_F(GpuCommunicator, MovesWhatEachCollectivePromises) {
  for (const auto& [mode, shape] : forms) {
    make_pool(mode);
    for (const std::uint32_t ranks : {1u, 2u, 4u}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks, {}", mode_name(mode), ranks, shape.direct));
      run(ranks, std::min(ranks, 2u), shape,
          [](const Rank& rank) { move_in_turn(rank, base::seed_in_tests(), 40); });
    }
  }
}

/// Values of which sums, products and averages stay finite, and differ by rank and place.
std::vector<std::byte> values_of(coll::Datatype type, std::size_t elements, std::uint32_t rank,
                                 std::uint64_t salt) {
  std::mt19937_64 random(salt * 101 + rank);
  std::vector<std::byte> bytes(elements * bytes_of(type));
  const auto put = [&](auto value, std::size_t i) {
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  };
  for (std::size_t i = 0; i < elements; ++i) {
    const double drawn = static_cast<double>(random() % 64) / 16 - 1.5;
    switch (type) {
      case coll::Datatype::float16:
        put(coll::Float16::encode(static_cast<float>(drawn)), i);
        break;
      case coll::Datatype::bfloat16:
        put(coll::BFloat16::encode(static_cast<float>(drawn)), i);
        break;
      case coll::Datatype::float8_e4m3:
        put(coll::Float8E4M3::encode(static_cast<float>(drawn)), i);
        break;
      case coll::Datatype::float8_e5m2:
        put(coll::Float8E5M2::encode(static_cast<float>(drawn)), i);
        break;
      case coll::Datatype::float32:
        put(static_cast<float>(drawn) * 1.1F, i);
        break;
      case coll::Datatype::float64:
        put(drawn * 1.1, i);
        break;
      case coll::Datatype::boolean:
        put(static_cast<std::uint8_t>(random() % 2), i);
        break;
      default: {
        const std::uint64_t word = random();
        std::memcpy(bytes.data() + i * bytes_of(type), &word, bytes_of(type));
      }
    }
  }
  return bytes;
}

coll::Problem reduction_problem(Collective collective, const Rank& rank, coll::Datatype type,
                                std::uint64_t elements) {
  const std::uint32_t ranks = rank.core.ranks();
  const std::uint64_t each = elements * bytes_of(type);
  coll::Problem p{.collective = collective,
                  .ranks = ranks,
                  .rank = rank.core.self(),
                  .element_bytes = bytes_of(type),
                  .max_block_bytes = each};
  if (collective == Collective::reduce_scatter)
    for (std::uint32_t r = 0; r < ranks; ++r) p.input.push_back({r * each, each});
  else
    p.input = {{0, each}};
  if (collective != Collective::reduce || p.rank == p.root) p.output = {{0, each}};
  return p;
}

/// A GPU's result is that of the hosts, bit by bit.
void reduce_both_ways(const Rank& rank, Collective collective, coll::Datatype type,
                      coll::Operation operation, std::uint64_t elements) {
  SCOPED_TRACE(fmt::format("{} {} of {} {}", name_of(collective), name_of(operation), elements,
                           name_of(type)));
  const coll::Problem problem = reduction_problem(collective, rank, type, elements);
  const std::uint64_t blocks = problem.input.size();
  const auto in = values_of(type, elements * blocks, rank.core.self(), elements);
  std::vector<std::byte> wanted(problem.output.empty() ? 0 : elements * bytes_of(type));
  const auto reduction = *coll::Reduction::make(type, operation, rank.core.ranks());
  const coll::PredefinedArithmetic plain(reduction);
  const auto scaled = coll::PremultipliedArithmetic::make(reduction, 3);
  const bool premultiplied = operation == coll::Operation::premultiplied_sum;
  const coll::Arithmetic& arithmetic =
      premultiplied ? static_cast<const coll::Arithmetic&>(*scaled) : plain;
  const auto by_host = rank.core.run({.name = "by hosts",
                                      .problem = &problem,
                                      .plan = rank.core.plan(problem),
                                      .input = in.data(),
                                      .output = wanted.data(),
                                      .arithmetic = &arithmetic});
  ASSERT_TRUE(by_host) << by_host.error().message;
  const DeviceBytes there(rank.device, in, rank.stream);
  const DeviceBytes result(rank.device, std::vector<std::byte>(wanted.size()), rank.stream);
  const auto done =
      rank.gpu.enqueue({.name = "by GPUs",
                        .problem = problem,
                        .input = there.at(),
                        .output = result.at(),
                        .reducing = Reducing{.type = type, .operation = operation, .factor = 3}},
                       rank.stream);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(result.read(), wanted);
  ASSERT_TRUE(rank.gpu.drain());
}

/// Each type with each operation.
void reduce_all_both_ways(const Rank& rank) {
  std::mt19937_64 random(base::seed_in_tests());
  constexpr Collective kinds[] = {Collective::reduce, Collective::reduce_scatter,
                                  Collective::allreduce, Collective::scan};
  constexpr std::uint64_t sizes[] = {1, 5, 33, 700};
  for (std::uint32_t t = 0; t < coll::datatype_count; ++t) {
    for (std::uint32_t o = 0; o < coll::operation_count; ++o) {
      const auto type = static_cast<coll::Datatype>(t);
      const auto operation = static_cast<coll::Operation>(o);
      if (!supports(operation, type)) continue;
      reduce_both_ways(rank, kinds[random() % std::size(kinds)], type, operation,
                       sizes[random() % std::size(sizes)]);
    }
  }
}

TEST_F(GpuCommunicator, ReducesAsHostsDo) {
  for (const auto& [mode, shape] : {forms[0], forms[2]}) {
    make_pool(mode);
    run(3, 3, shape, reduce_all_both_ways);
  }
}

void abort_from_another_thread(const Rank& rank) {
  const coll::Problem problem =
      reduction_problem(Collective::allreduce, rank, coll::Datatype::float32, 1000);
  const DeviceBytes memory(rank.device, std::vector<std::byte>(4000), rank.stream);
  const Call call{.name = "sum",
                  .problem = problem,
                  .input = memory.at(),
                  .output = memory.at(),
                  .reducing = Reducing{}};
  if (rank.core.self() == 1) {  // comes when the other has given up
    while (!rank.gpu.error()) {
      const auto done = rank.gpu.enqueue(call, rank.stream);
      (void)memory.read();
      if (!done) break;
    }
    EXPECT_THAT(rank.gpu.error()->message, HasSubstr("rank 0"));
    return;
  }
  ASSERT_TRUE(rank.gpu.enqueue(call, rank.stream));
  (void)memory.read();
  rank.gpu.abort();
  EXPECT_FALSE(rank.gpu.enqueue(call, rank.stream));
  EXPECT_FALSE(rank.gpu.drain());
  EXPECT_THAT(rank.gpu.error()->message, HasSubstr("aborted"));
}

TEST_F(GpuCommunicator, AbortsFromAnotherThread) {
  for (const auto& [mode, shape] : {forms[0], forms[2]}) {
    make_pool(mode);
    run(2, 2, shape, abort_from_another_thread);
  }
}

void reduction_in_vain(const Rank& rank) {
  const coll::Problem problem =
      reduction_problem(Collective::allreduce, rank, coll::Datatype::float32, 1000);
  const DeviceBytes memory(rank.device, std::vector<std::byte>(4000), rank.stream);
  ASSERT_TRUE(rank.gpu.enqueue({.name = "sum",
                                .problem = problem,
                                .input = memory.at(),
                                .output = memory.at(),
                                .reducing = Reducing{}},
                               rank.stream));
  (void)memory.read();  // for streams that run out
  EXPECT_FALSE(rank.gpu.drain());
  EXPECT_THAT(rank.gpu.error()->message, HasSubstr("rank 0"));
  EXPECT_THAT(rank.gpu.error()->message, HasSubstr("has given the communicator up"));
}

/// Rank 0 aborts and ends when it has done all that it began; rank 1 comes later, and its call is
/// right. The next one waits for rank 0 in vain.
void come_after_an_abort(const Rank& rank, std::atomic<bool>& ended) {
  constexpr std::uint64_t bytes = 4000;
  const bool is_root = rank.core.self() == 0;
  const coll::Problem problem{
      .collective = Collective::broadcast,
      .ranks = 2,
      .rank = rank.core.self(),
      .input = is_root ? std::vector<coll::Block>{{0, bytes}} : std::vector<coll::Block>{},
      .output = is_root ? std::vector<coll::Block>{} : std::vector<coll::Block>{{0, bytes}},
      .max_block_bytes = bytes};
  const std::vector<std::byte> sent(bytes, std::byte{7});
  const DeviceBytes memory(rank.device, is_root ? sent : std::vector<std::byte>(bytes),
                           rank.stream);
  while (!is_root && !ended) std::this_thread::yield();
  const auto done = rank.gpu.enqueue(
      {.name = "b", .problem = problem, .input = memory.at(), .output = memory.at()}, rank.stream);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(memory.read(), sent);
  if (is_root) {
    rank.gpu.abort();
    rank.close();
    ended = true;
    return;
  }
  EXPECT_FALSE(rank.gpu.error());
  ASSERT_TRUE(rank.gpu.drain());
  reduction_in_vain(rank);
}

TEST_F(GpuCommunicator, AnAbortOfARankThatHasDoneAllHarmsNobody) {
  for (const auto& [mode, shape] : {forms[0], forms[2]}) {
    make_pool(mode);
    std::atomic<bool> ended{false};
    run(2, 2, shape, [&](const Rank& rank) { come_after_an_abort(rank, ended); });
  }
}

/// The stand-in's GPU without stream memory operations: the direct form waits by launches.
class GpuWithoutStreamWords : public GpuCommunicator {
 protected:
  void SetUp() override { setenv("STANDIN_NO_STREAM_WORDS", "1", 1); }
  void TearDown() override { unsetenv("STANDIN_NO_STREAM_WORDS"); }
};

TEST_F(GpuWithoutStreamWords, MovesAndReducesAlike) {
  if (std::getenv("PENSTOCK_TEST_CUDA") != nullptr) GTEST_SKIP() << "a GPU has them";
  make_pool(coherence::Mode::hardware);
  run(4, 2, small_direct(),
      [](const Rank& rank) { move_in_turn(rank, base::seed_in_tests(), 40); });
  run(3, 3, small_direct(), reduce_all_both_ways);
}

/// A sum of all ranks, in a graph and outside, of numbers that differ from turn to turn.
class Sums {
 public:
  Sums(const Rank& rank, std::uint32_t elements)
      : rank_(rank),
        elements_(elements),
        problem_(reduction_problem(Collective::allreduce, rank, coll::Datatype::int32, elements)),
        in_(rank.device, std::vector<std::byte>(elements * 4), rank.stream),
        out_(rank.device, std::vector<std::byte>(elements * 4), rank.stream) {}

  Result<void> enqueue(std::uint64_t timeout_ns = 0) const {
    return rank_.gpu.enqueue({.name = "sum",
                              .problem = problem_,
                              .input = in_.at(),
                              .output = out_.at(),
                              .reducing = Reducing{.type = coll::Datatype::int32},
                              .timeout_ns = timeout_ns},
                             rank_.stream);
  }
  void put(std::uint32_t turn) {
    const Device::Scope scope(rank_.device);
    numbers_.assign(elements_, turn * 1000 + rank_.core.self());
    ASSERT_EQ(rank_.device.driver().copy_to_device(in_.at(), numbers_.data(), elements_ * 4,
                                                   rank_.stream),
              cuda::success);
  }
  void expect(std::uint32_t turn) const {
    const std::uint32_t ranks = rank_.core.ranks();
    std::vector<std::uint32_t> found(elements_);
    const auto bytes = out_.read();
    std::memcpy(found.data(), bytes.data(), bytes.size());
    EXPECT_THAT(found, testing::Each(ranks * turn * 1000 + ranks * (ranks - 1) / 2));
  }
  void wait() const { (void)out_.read(); }
  /// The graph, which is launched by launch().
  void capture(int mode, int calls) {
    const Device::Scope scope(rank_.device);
    const cuda::Driver& driver = rank_.device.driver();
    cuda::Graph graph = nullptr;
    ASSERT_EQ(driver.stream_begin_capture(rank_.stream, mode), cuda::success);
    for (int i = 0; i < calls; ++i) {
      const auto done = enqueue();
      ASSERT_TRUE(done) << done.error().message;
    }
    ASSERT_EQ(driver.stream_end_capture(rank_.stream, &graph), cuda::success);
    ASSERT_EQ(driver.graph_instantiate(&graph_, graph, 0), cuda::success);
    ASSERT_EQ(driver.graph_destroy(graph), cuda::success);
  }
  void launch() const {
    const Device::Scope scope(rank_.device);
    ASSERT_EQ(rank_.device.driver().graph_launch(graph_, rank_.stream), cuda::success);
  }

 private:
  const Rank& rank_;
  std::uint32_t elements_;
  coll::Problem problem_;
  DeviceBytes in_, out_;
  std::vector<std::uint32_t> numbers_;
  cuda::GraphExec graph_ = nullptr;
};

/// All ranks begin to capture together: a capture of this kind forbids others what they do before.
void replay(const Rank& rank, int calls, std::uint32_t turns) {
  Sums sums(rank, 700);
  sums.put(1);
  ASSERT_TRUE(sums.enqueue());
  sums.expect(1);
  sums.capture(cuda::capture_thread_local, calls);
  for (std::uint32_t turn = 2; turn < turns; ++turn) {
    sums.put(turn);
    sums.launch();
    if (turn % 3 == 0) {  // outside of the graph
      ASSERT_TRUE(sums.enqueue());
    }
    sums.expect(turn);
    ASSERT_TRUE(rank.gpu.drain());
    if (turn % 4 == 0)  // by hosts
      reduce_both_ways(rank, Collective::allreduce, coll::Datatype::float32, coll::Operation::sum,
                       500);
  }
}

TEST_F(GpuCommunicator, AGraphIsLaunchedAnyNumberOfTimes) {
  for (const Form& form : {forms[2], forms[3]}) {
    make_pool(form.mode);
    for (const int calls : {1, 2}) {
      run(2, 2, form.shape, [calls](const Rank& rank) { replay(rank, calls, 14); });
      run(3, 1, form.shape, [calls](const Rank& rank) { replay(rank, calls, 14); });
    }
  }
}

/// The first call of all is one in a graph, in the mode that forbids allocations to all threads.
TEST_F(GpuCommunicator, ACaptureForbidsNothingThatACallDoes) {
  make_pool(coherence::Mode::hardware);
  run(1, 1, small_direct(), [](const Rank& rank) {
    Sums sums(rank, 10);
    sums.capture(cuda::capture_global, 3);
    sums.put(7);
    sums.launch();
    sums.expect(7);
  });
}

TEST_F(GpuCommunicator, TheProxysFormRefusesACapture) {
  make_pool(coherence::Mode::hardware);
  run(1, 1, small, [](const Rank& rank) {
    const Device::Scope scope(rank.device);
    const cuda::Driver& driver = rank.device.driver();
    const Sums sums(rank, 10);
    cuda::Graph graph = nullptr;
    ASSERT_EQ(driver.stream_begin_capture(rank.stream, cuda::capture_thread_local), cuda::success);
    const auto refused = sums.enqueue();
    EXPECT_EQ(driver.stream_end_capture(rank.stream, &graph), cuda::success);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("captures a graph"));
    EXPECT_TRUE(sums.enqueue());
    EXPECT_TRUE(rank.gpu.drain());
  });
}

/// Rank 1 does not come to the last call: rank 0's streams are let go at its timeout, and rank 1
/// learns of it.
void wait_in_vain(const Rank& rank, bool in_graph) {
  constexpr std::uint64_t timeout_ns = 150'000'000;
  Sums sums(rank, 300);
  sums.put(1);
  if (in_graph) {
    sums.capture(cuda::capture_thread_local, 1);
    sums.launch();
  } else {
    ASSERT_TRUE(sums.enqueue());
  }
  sums.expect(1);
  if (rank.core.self() == 0) {
    ASSERT_TRUE(sums.enqueue(timeout_ns));
    EXPECT_FALSE(rank.gpu.drain());
    EXPECT_THAT(rank.gpu.error()->message, HasSubstr("for 1 of 2 ranks: rank 1"));
    return;
  }
  while (!rank.gpu.error()) std::this_thread::yield();
  EXPECT_THAT(rank.gpu.error()->message, HasSubstr("rank 0"));
  EXPECT_FALSE(sums.enqueue());
}

TEST_F(GpuCommunicator, ATimeoutLetsTheStreamsGo) {
  for (const Form& form : {forms[2], forms[3]}) {
    make_pool(form.mode);
    for (const bool in_graph : {false, true})
      run(2, 2, form.shape, [in_graph](const Rank& rank) { wait_in_vain(rank, in_graph); });
  }
}

/// The second call was numbered by the host, and is under way when the GPU begins to count.
void wait_in_vain_and_capture(const Rank& rank) {
  constexpr std::uint64_t timeout_ns = 150'000'000;
  Sums sums(rank, 300);
  sums.put(1);
  ASSERT_TRUE(sums.enqueue());
  sums.expect(1);
  if (rank.core.self() == 1) {
    while (!rank.gpu.error()) std::this_thread::yield();
    EXPECT_THAT(rank.gpu.error()->message, HasSubstr("rank 0"));
    return;
  }
  ASSERT_TRUE(sums.enqueue(timeout_ns));
  sums.capture(cuda::capture_thread_local, 1);
  sums.wait();
  EXPECT_FALSE(rank.gpu.drain());
  EXPECT_THAT(rank.gpu.error()->message, HasSubstr("for 1 of 2 ranks: rank 1"));
}

TEST_F(GpuCommunicator, AGraphLeavesNoEarlierCallUnwatched) {
  make_pool(coherence::Mode::hardware);
  run(2, 2, small_direct(), wait_in_vain_and_capture);
}

/// Rank 0 ends while a graph of its own waits for rank 1, which does not launch one.
void end_during_a_graph(const Rank& rank) {
  Sums sums(rank, 300);
  sums.put(1);
  sums.capture(cuda::capture_thread_local, 1);
  sums.launch();
  sums.expect(1);
  if (rank.core.self() == 1) {
    while (!rank.gpu.error()) std::this_thread::yield();
    EXPECT_THAT(rank.gpu.error()->message, HasSubstr("rank 0"));
    return;
  }
  sums.launch();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  rank.gpu.abort();
  rank.close();
  sums.wait();
}

TEST_F(GpuCommunicator, EndsWhenItsGraphsHave) {
  make_pool(coherence::Mode::hardware);
  for (int turn = 0; turn < 5; ++turn) run(2, 2, small_direct(), end_during_a_graph);
}

/// While another thread captures in the mode that forbids all threads what may wait.
TEST_F(GpuCommunicator, DrainsAndEndsDuringACapture) {
  for (const auto& [mode, shape] : {forms[0], forms[2]}) {
    make_pool(mode);
    run(1, 1, shape, [](const Rank& rank) {
      const Device::Scope scope(rank.device);
      const cuda::Driver& driver = rank.device.driver();
      Sums sums(rank, 10);
      sums.put(4);
      ASSERT_TRUE(sums.enqueue());
      sums.expect(4);
      cuda::Stream captured = nullptr;
      cuda::Graph graph = nullptr;
      ASSERT_EQ(driver.stream_create(&captured, cuda::stream_non_blocking), cuda::success);
      ASSERT_EQ(driver.stream_begin_capture(captured, cuda::capture_global), cuda::success);
      const auto drained = rank.gpu.drain();
      EXPECT_TRUE(drained) << drained.error().message;
      rank.close();
      ASSERT_EQ(driver.stream_end_capture(captured, &graph), cuda::success);
      ASSERT_EQ(driver.graph_destroy(graph), cuda::success);
      ASSERT_EQ(driver.stream_destroy(captured), cuda::success);
    });
  }
}

/// As `penstock ps` shows rank 0.
std::string shown_of_first(const Rank& rank) {
  const group::Group& group = rank.core.direct().group();
  for (const pool::ProcessRecord& record : group.pool.processes())
    if (record.token() == group.token(0)) return record.activity;
  return {};
}

/// Rank 1 comes when it is seen that rank 0 waits for it.
void come_when_seen(const Rank& rank) {
  Sums sums(rank, 300);
  sums.put(1);
  if (rank.core.self() == 1)
    while (shown_of_first(rank).find("sum: waits for rank 1 (pid ") == std::string::npos)
      std::this_thread::yield();
  ASSERT_TRUE(sums.enqueue());
  sums.expect(1);
  ASSERT_TRUE(rank.gpu.drain());
  if (rank.core.self() == 0)
    while (!shown_of_first(rank).empty()) std::this_thread::yield();
}

TEST_F(GpuCommunicator, WhatAGpuWaitsForIsShown) {
  for (const Form& form : {forms[2], forms[3]}) {
    make_pool(form.mode);
    run(2, 2, form.shape, come_when_seen);
  }
}

/// One thread enqueues while another asks, and aborts in the end.
TEST_F(GpuCommunicator, AnotherThreadAsksAndAborts) {
  for (const auto& [mode, shape] : {forms[0], forms[2]}) {
    make_pool(mode);
    run(2, 2, shape, [](const Rank& rank) {
      Sums sums(rank, 300);
      sums.put(3);
      std::atomic<bool> enqueued{false};
      std::thread other([&] {
        while (!enqueued) (void)rank.gpu.error();
        if (rank.core.self() == 1) rank.gpu.abort();
      });
      for (int i = 0; i < 50; ++i) ASSERT_TRUE(sums.enqueue());
      sums.expect(3);
      enqueued = true;
      other.join();
      while (!rank.gpu.error()) (void)sums.enqueue();
      EXPECT_FALSE(rank.gpu.drain());
      sums.wait();  // for streams that run out
    });
  }
}

}  // namespace
}  // namespace penstock::gpu
