// Calls of more operations than a stream holds: the thread that enqueues waits for room outside the
// driver, and nobody asks about a stream that is being given operations.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "gpu/test_calls.hpp"

namespace penstock::gpu {
namespace {

using testing::HasSubstr;

/// Each rank's part takes several times as many operations as a stream holds.
constexpr std::uint64_t much = 2 << 20;

class Gathering {
 public:
  explicit Gathering(const Rank& rank, std::uint64_t each = much)
      : rank_(rank),
        each_(each),
        in_(rank.device, std::vector<std::byte>(each, std::byte(rank.core.self() + 1)),
            rank.stream),
        out_(rank.device, std::vector<std::byte>(2 * each), rank.stream) {}

  Result<void> enqueue() const {
    const coll::Problem problem{.collective = Collective::allgather,
                                .ranks = 2,
                                .rank = rank_.core.self(),
                                .input = {{0, each_}},
                                .output = {{0, each_}, {each_, each_}},
                                .max_block_bytes = each_};
    return rank_.gpu.enqueue(
        {.name = "gather", .problem = problem, .input = in_.at(), .output = out_.at()},
        rank_.stream);
  }
  void expect() const {
    std::vector<std::byte> wanted(each_, std::byte{1});
    wanted.resize(2 * each_, std::byte{2});
    EXPECT_EQ(out_.read(), wanted);
  }
  void wait() const { (void)out_.read(); }

 private:
  const Rank& rank_;
  std::uint64_t each_;
  DeviceBytes in_, out_;
};

void gather(const Rank& rank, std::uint64_t each) {
  const Gathering gathering(rank, each);
  const auto done = gathering.enqueue();
  ASSERT_TRUE(done) << done.error().message;
  gathering.expect();
  EXPECT_TRUE(rank.gpu.drain());
}

void gather_much(const Rank& rank) {
  gather(rank, much);
}

void make_many_small_calls(const Rank& rank) {
  constexpr int calls = 500;
  Sums sums(rank, 300);
  sums.put(1);
  for (int i = 0; i < calls; ++i) ASSERT_TRUE(sums.enqueue());
  sums.expect(1);
  EXPECT_TRUE(rank.gpu.drain());
}

/// The other rank does not come, so the call of rank 0 waits for room until it is aborted.
void abort_while_it_waits_for_room(const Rank& rank) {
  constexpr std::chrono::milliseconds until_it_waits{50};
  if (rank.core.self() == 1) return;
  const Gathering gathering(rank);
  std::thread aborter([&] {
    std::this_thread::sleep_for(until_it_waits);
    rank.gpu.abort();
  });
  (void)gathering.enqueue();
  aborter.join();
  EXPECT_FALSE(rank.gpu.drain());
  EXPECT_THAT(rank.gpu.error()->message, HasSubstr("aborted"));
  gathering.wait();
}

/// On a stand-in whose full queue ends the process. A thread that waited in the driver would keep
/// abort() and other users of the driver waiting.
class GpuWithFullQueues : public GpuCommunicator {
 protected:
  void SetUp() override { setenv("STANDIN_FULL_QUEUE_ABORTS", "1", 1); }
  void TearDown() override {
    unsetenv("STANDIN_FULL_QUEUE_ABORTS");
    unsetenv("STANDIN_NO_STREAM_WORDS");
  }
  void run_by(const Form& form, void (*body)(const Rank&)) {
    SCOPED_TRACE(form.name);
    make_pool(form);
    run(2, 2, form.shape, body);
  }
};

TEST_F(GpuWithFullQueues, LongCallWaitsOutsideTheDriver) {
  for (const Form& form : {forms[0], forms[2], forms[3]}) run_by(form, gather_much);
}

TEST_F(GpuWithFullQueues, LongCallByLaunchesWaitsOutsideTheDriver) {
  if (on_a_gpu()) GTEST_SKIP() << "a GPU has stream memory operations";
  setenv("STANDIN_NO_STREAM_WORDS", "1", 1);
  run_by(forms[2], gather_much);
}

TEST_F(GpuWithFullQueues, SmallCallsWaitOutsideTheDriver) {
  for (const Form& form : {forms[0], forms[2], forms[4], forms[6], forms[7]})
    run_by(form, make_many_small_calls);
}

TEST_F(GpuWithFullQueues, AbortEndsAWaitForRoom) {
  for (const Form& form : {forms[0], forms[2], forms[3]})
    run_by(form, abort_while_it_waits_for_room);
}

TEST_F(GpuWithFullQueues, CaptureTakesALongCallAtOnce) {
  run_by(forms[2], [](const Rank& rank) {
    const Device::Scope scope(rank.device);
    const cuda::Driver& driver = rank.device.driver();
    const Gathering gathering(rank);
    cuda::Graph graph = nullptr;
    cuda::GraphExec launched = nullptr;
    ASSERT_EQ(driver.stream_begin_capture(rank.stream, cuda::capture_thread_local), cuda::success);
    EXPECT_TRUE(gathering.enqueue());
    ASSERT_EQ(driver.stream_end_capture(rank.stream, &graph), cuda::success);
    ASSERT_EQ(driver.graph_instantiate(&launched, graph, 0), cuda::success);
    ASSERT_EQ(driver.graph_launch(launched, rank.stream), cuda::success);
    gathering.expect();
    EXPECT_TRUE(rank.gpu.drain());
  });
}

/// The stand-in ends the process if a stream is asked about while a thread gives it operations, and
/// its calls take long.
TEST_F(GpuCommunicator, AsksNoStreamThatIsGivenOperations) {
  setenv("STANDIN_ASKED_DURING_CALL_ABORTS", "1", 1);
  for (const Form& form : {forms[0], forms[2]}) {
    SCOPED_TRACE(form.name);
    make_pool(form);
    run(2, 2, form.shape, [](const Rank& rank) { gather(rank, 200'000); });
  }
  unsetenv("STANDIN_ASKED_DURING_CALL_ABORTS");
}

}  // namespace
}  // namespace penstock::gpu
