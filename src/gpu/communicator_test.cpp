// Collectives of GPUs through a real pool, on the stand-in GPU, whose memory the host cannot access
// and whose streams run at their own pace. Each rank is a thread.
#include "gpu/communicator.hpp"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/seed_in_tests.hpp"
#include "coll/direct.hpp"
#include "gpu/pinned.hpp"
#include "gpu/test_calls.hpp"
#include "pool/members.hpp"

namespace penstock::gpu {
namespace {

using testing::HasSubstr;

TEST_F(GpuCommunicator, MovesWhatEachCollectivePromises) {
  for (const Form& form : forms) {
    make_pool(form);
    for (const std::uint32_t ranks : {1u, 2u, 4u}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks, {}", mode_name(form.mode), ranks, form.name));
      run(ranks, std::min(ranks, 2u), form.shape,
          [](const Rank& rank) { move_in_turn(rank, base::seed_in_tests(), 40); });
    }
  }
}

TEST_F(GpuCommunicator, ReducesAsHostsDo) {
  for (const Form& form : {forms[0], forms[2], forms[4], forms[6], forms[7]}) {
    make_pool(form);
    run(3, 3, form.shape, reduce_all_both_ways);
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
  if (rank.core.self() == 1) {  // begins when the other has given up
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
  for (const Form& form : {forms[0], forms[2], forms[4], forms[6], forms[7]}) {
    make_pool(form);
    run(2, 2, form.shape, abort_from_another_thread);
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
  (void)memory.read();  // waits for streams that still run
  EXPECT_FALSE(rank.gpu.drain());
  EXPECT_THAT(rank.gpu.error()->message, HasSubstr("rank 0"));
  EXPECT_THAT(rank.gpu.error()->message, HasSubstr("has given the communicator up"));
}

/// Rank 0 aborts and ends after it has done all that it began; rank 1 comes later, and its call
/// succeeds. Its next call waits for rank 0 in vain.
void enter_after_an_abort(const Rank& rank, std::atomic<bool>& ended) {
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

TEST_F(GpuCommunicator, AbortAfterAllCallsIsHarmless) {
  for (const Form& form : {forms[0], forms[2], forms[4], forms[6], forms[7]}) {
    make_pool(form);
    std::atomic<bool> ended{false};
    run(2, 2, form.shape, [&](const Rank& rank) { enter_after_an_abort(rank, ended); });
  }
}

/// A host word that a stream waits for.
class Hold {
 public:
  explicit Hold(const Rank& rank) : device_(rank.device) {
    const Device::Scope scope(device_);
    cuda::DevicePointer at = 0;
    EXPECT_EQ(device_.driver().host_register(&word_, sizeof word_, cuda::host_register_device_map),
              cuda::success);
    EXPECT_EQ(device_.driver().host_device_pointer(&at, &word_, 0), cuda::success);
    EXPECT_EQ(device_.driver().wait_value(rank.stream, at, 1, cuda::wait_value_geq), cuda::success);
  }
  ~Hold() {
    const Device::Scope scope(device_);
    EXPECT_EQ(device_.driver().host_unregister(&word_), cuda::success);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  void release() { __atomic_store_n(&word_, std::uint64_t{1}, __ATOMIC_RELEASE); }

 private:
  const Device& device_;
  alignas(64) std::uint64_t word_ = 0;
};

/// The root's last call would overwrite the slot of its first one, and so waits for the other's
/// GPU, which has not read it yet. The root aborts, and its streams run on.
void read_after_an_abort(const Rank& rank, std::atomic<bool>& ended) {
  constexpr std::uint64_t bytes = 4000;
  const bool is_root = rank.core.self() == 0;
  const coll::Problem problem{
      .collective = Collective::broadcast,
      .ranks = 2,
      .rank = rank.core.self(),
      .input = is_root ? std::vector<coll::Block>{{0, bytes}} : std::vector<coll::Block>{},
      .output = is_root ? std::vector<coll::Block>{} : std::vector<coll::Block>{{0, bytes}},
      .max_block_bytes = bytes};
  const auto enqueue = [&](const DeviceBytes& memory) {
    const auto done = rank.gpu.enqueue(
        {.name = "b", .problem = problem, .input = memory.at(), .output = memory.at()},
        rank.stream);
    ASSERT_TRUE(done) << done.error().message;
  };
  const std::vector<std::byte> sent(bytes, std::byte{7});
  if (is_root) {
    const DeviceBytes first(rank.device, sent, rank.stream);
    const DeviceBytes last(rank.device, std::vector<std::byte>(bytes, std::byte{1}), rank.stream);
    for (const DeviceBytes* memory : {&first, &first, &last}) enqueue(*memory);
    while (rank.core.begun() < 3) std::this_thread::yield();
    rank.gpu.abort();
    (void)last.read();  // all waits were released
    ended = true;
    return;
  }
  const DeviceBytes memory(rank.device, std::vector<std::byte>(bytes), rank.stream);
  Hold hold(rank);
  enqueue(memory);
  while (!ended) std::this_thread::yield();
  hold.release();
  if (memory.read() != sent) {
    ASSERT_TRUE(rank.gpu.error()) << "wrong bytes, and no error";
    EXPECT_THAT(rank.gpu.error()->message, HasSubstr("has given the communicator up"));
  }
  EXPECT_FALSE(rank.gpu.drain());
}

TEST_F(GpuCommunicator, DiscardsDataReadFromFailedRank) {
  for (const Form& form : {forms[0], forms[1], forms[6]}) {
    make_pool(form);
    std::atomic<bool> ended{false};
    run(2, 2, form.shape, [&](const Rank& rank) { read_after_an_abort(rank, ended); });
  }
}

/// A call of rank 0, for which rank 1 does not come, stands behind an operation of the program when
/// it is aborted.
void use_buffer_again(const Rank& rank) {
  constexpr std::uint64_t bytes = 4000;
  constexpr std::chrono::milliseconds later{50};
  if (rank.core.self() == 1) return;
  const coll::Problem problem{.collective = Collective::broadcast,
                              .ranks = 2,
                              .rank = 0,
                              .root = 1,
                              .output = {{0, bytes}},
                              .max_block_bytes = bytes};
  const DeviceBytes memory(rank.device, std::vector<std::byte>(bytes), rank.stream);
  Hold hold(rank);
  ASSERT_TRUE(rank.gpu.enqueue(
      {.name = "b", .problem = problem, .input = memory.at(), .output = memory.at()}, rank.stream));
  EXPECT_TRUE(rank.gpu.is_busy());
  rank.gpu.abort();
  std::thread releaser([&] {
    std::this_thread::sleep_for(later);
    hold.release();
  });
  EXPECT_FALSE(rank.gpu.drain());
  EXPECT_FALSE(rank.gpu.is_busy());
  const std::vector<std::byte> next(bytes, std::byte{0x5a});
  {
    const Device::Scope scope(rank.device);
    const cuda::Driver& driver = rank.device.driver();
    cuda::Stream other = nullptr;
    ASSERT_EQ(driver.stream_create(&other, cuda::stream_non_blocking), cuda::success);
    EXPECT_EQ(driver.copy_to_device(memory.at(), next.data(), bytes, other), cuda::success);
    EXPECT_EQ(driver.stream_synchronize(other), cuda::success);
    EXPECT_EQ(driver.stream_destroy(other), cuda::success);
  }
  releaser.join();
  EXPECT_EQ(memory.read(), next);
}

TEST_F(GpuCommunicator, DrainAwaitsAbortedCalls) {
  for (const Form& form : {forms[0], forms[2], forms[4], forms[6], forms[7]}) {
    make_pool(form);
    run(2, 2, form.shape, use_buffer_again);
  }
}

/// The stand-in GPU without stream memory operations: the direct form waits by launches.
class GpuWithoutStreamWords : public GpuCommunicator {
 protected:
  void SetUp() override { setenv("STANDIN_NO_STREAM_WORDS", "1", 1); }
  void TearDown() override { unsetenv("STANDIN_NO_STREAM_WORDS"); }
};

TEST_F(GpuWithoutStreamWords, MovesAndReducesAlike) {
  if (on_a_gpu()) GTEST_SKIP() << "a GPU has them";
  for (const Form& form : {forms[2], forms[4], forms[7]}) {
    make_pool(form);
    run(4, 2, form.shape, [](const Rank& rank) { move_in_turn(rank, base::seed_in_tests(), 40); });
    run(3, 3, form.shape, reduce_all_both_ways);
  }
}

/// All streams of a rank share one queue of the stand-in GPU: an operation that one stream waits
/// for must not be enqueued later on another.
class GpuWithOneQueue : public GpuCommunicator {
 protected:
  void SetUp() override {
    if (on_a_gpu()) GTEST_SKIP() << "ranks of one process would share a GPU's queue";
    setenv("STANDIN_ONE_QUEUE", "1", 1);
  }
  void TearDown() override {
    unsetenv("STANDIN_ONE_QUEUE");
    unsetenv("STANDIN_NO_STREAM_WORDS");
  }
  void move_and_reduce(const Form& form) {
    SCOPED_TRACE(form.name);
    make_pool(form);
    run(4, 2, form.shape, [](const Rank& rank) { move_in_turn(rank, base::seed_in_tests(), 40); });
    run(3, 3, form.shape, reduce_all_both_ways);
  }
};

TEST_F(GpuWithOneQueue, MovesAndReducesAlike) {
  for (const Form& form : {forms[0], forms[2], forms[4], forms[6], forms[7]}) move_and_reduce(form);
}

TEST_F(GpuWithOneQueue, MovesAndReducesAlikeByLaunches) {
  setenv("STANDIN_NO_STREAM_WORDS", "1", 1);
  move_and_reduce(forms[2]);
}

/// All ranks begin to capture together: such a capture forbids the others calls that they make
/// before.
void replay(const Rank& rank, int calls, std::uint32_t turns) {
  Sums sums(rank, 700);
  sums.put(1);
  ASSERT_TRUE(sums.enqueue());
  sums.expect(1);
  sums.capture(cuda::capture_thread_local, calls);
  for (std::uint32_t turn = 2; turn < turns; ++turn) {
    sums.put(turn);
    sums.launch();
    if (turn % 3 == 0) {  // outside the graph
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
  for (const Form& form : {forms[2], forms[3], forms[4], forms[7]}) {
    make_pool(form);
    for (const int calls : {1, 2}) {
      run(2, 2, form.shape, [calls](const Rank& rank) { replay(rank, calls, 14); });
      run(3, 1, form.shape, [calls](const Rank& rank) { replay(rank, calls, 14); });
    }
  }
}

/// The very first call is in a graph, in the mode that forbids all threads to allocate.
TEST_F(GpuCommunicator, ACaptureForbidsNothingThatACallDoes) {
  for (const Form& form : {forms[2], forms[4], forms[7]}) {
    make_pool(form);
    run(1, 1, form.shape, [](const Rank& rank) {
      Sums sums(rank, 10);
      sums.capture(cuda::capture_global, 3);
      sums.put(7);
      sums.launch();
      sums.expect(7);
    });
  }
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

/// Rank 1 does not make the last call: rank 0's streams are released at its timeout, and rank 1 is
/// told.
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
    sums.wait();
    return;
  }
  while (!rank.gpu.error()) std::this_thread::yield();
  EXPECT_THAT(rank.gpu.error()->message, HasSubstr("rank 0"));
  EXPECT_FALSE(sums.enqueue());
}

TEST_F(GpuCommunicator, ATimeoutLetsTheStreamsGo) {
  for (const Form& form : {forms[0], forms[2], forms[3], forms[4], forms[6], forms[7]}) {
    make_pool(form);
    for (const bool in_graph : {false, true})
      if (form.shape.direct || !in_graph)
        run(2, 2, form.shape, [in_graph](const Rank& rank) { wait_in_vain(rank, in_graph); });
  }
}

/// Both lanes of rank 0 wait for work that its program has given the stream before.
void wait_for_own_stream(const Rank& rank) {
  constexpr std::uint64_t timeout_ns = 150'000'000;
  const Sums sums(rank, 300);
  if (rank.core.self() == 1) {
    ASSERT_TRUE(sums.enqueue());
    while (!rank.gpu.error()) std::this_thread::yield();
    return sums.wait();
  }
  const auto words = *PinnedWords::make(*Device::current());
  {
    const Device::Scope scope(rank.device);
    ASSERT_EQ(rank.device.driver().wait_value(rank.stream, words->at(0), 1, cuda::wait_value_geq),
              cuda::success);
  }
  ASSERT_TRUE(sums.enqueue(timeout_ns));
  while (!rank.gpu.error()) std::this_thread::yield();
  EXPECT_THAT(rank.gpu.error()->message, HasSubstr("for 1 of 2 ranks: rank 0"));
  EXPECT_THAT(rank.gpu.error()->message, testing::Not(HasSubstr("; ")));
  (*words)[0] = 1;
  EXPECT_FALSE(rank.gpu.drain());
  sums.wait();
}

TEST_F(GpuCommunicator, NamesAnAwaitedRankOnce) {
  for (const Form& form : {forms[0], forms[6]}) {
    make_pool(form);
    run(2, 2, form.shape, wait_for_own_stream);
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
  for (const Form& form : {forms[2], forms[4], forms[7]}) {
    make_pool(form);
    run(2, 2, form.shape, wait_in_vain_and_capture);
  }
}

/// Rank 0 ends while its graph waits for rank 1, which does not launch one.
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
  const std::uint64_t before = rank.core.begun();
  sums.launch();
  while (rank.core.begun() == before) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  rank.gpu.abort();
  rank.close();
  sums.wait();
}

TEST_F(GpuCommunicator, EndsWhenItsGraphsHave) {
  for (const Form& form : {forms[2], forms[4], forms[7]}) {
    make_pool(form);
    for (int turn = 0; turn < 5; ++turn) run(2, 2, form.shape, end_during_a_graph);
  }
}

/// Another thread captures in the mode that forbids all threads calls that may wait.
TEST_F(GpuCommunicator, DrainsAndEndsDuringACapture) {
  for (const Form& form : {forms[0], forms[2], forms[4], forms[6], forms[7]}) {
    make_pool(form);
    run(1, 1, form.shape, [](const Rank& rank) {
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

/// The row of rank 0 in `penstock ps`.
std::string shown_of_first(const Rank& rank) {
  const group::Group& group = rank.core.direct().group();
  for (const pool::ProcessRecord& record : group.pool.members().processes())
    if (record.token() == group.token(0)) return record.activity;
  return {};
}

/// Rank 1 comes once `penstock ps` shows that rank 0 waits for it.
void enter_when_seen(const Rank& rank) {
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
  for (const Form& form : {forms[2], forms[3], forms[4], forms[7]}) {
    make_pool(form);
    run(2, 2, form.shape, enter_when_seen);
  }
}

/// One thread enqueues while another polls for errors, and finally aborts.
TEST_F(GpuCommunicator, AnotherThreadAsksAndAborts) {
  for (const Form& form : {forms[0], forms[2], forms[4], forms[6], forms[7]}) {
    make_pool(form);
    run(2, 2, form.shape, [](const Rank& rank) {
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
      sums.wait();  // for streams that still run
    });
  }
}

}  // namespace
}  // namespace penstock::gpu
