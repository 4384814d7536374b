// Calls by one launch each: as many launches as calls, any size and place, in order with calls by
// lanes and on other streams; and which calls qualify. In the direct form, and led by a proxy.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

#include "coll/direct.hpp"
#include "gpu/fused_launch.hpp"
#include "gpu/test_calls.hpp"

namespace penstock::gpu {
namespace {

using testing::HasSubstr;

class GpuFused : public GpuCommunicator {
 protected:
  static constexpr std::array by_one_launch{forms[4], forms[6], forms[7]};
};

TEST_F(GpuFused, ASmallCallIsOneLaunch) {
  if (on_a_gpu()) GTEST_SKIP() << "a GPU does not count";
  for (const Form& form : by_one_launch) {
    SCOPED_TRACE(form.name);
    make_pool(form);
    const char* const kernels =
        form.shape.flagged_bytes != 0 ? "penstock_flagged_" : "penstock_fused_";
    const auto fused = launches_of(kernels), combined = launches_of("penstock_combine_");
    run(3, 3, form.shape, [](const Rank& rank) {
      const Sums small(rank, 100);
      for (int i = 0; i < 5; ++i) ASSERT_TRUE(small.enqueue());
      small.wait();
    });
    EXPECT_EQ(launches_of(kernels) - fused, 15u);
    EXPECT_EQ(launches_of("penstock_combine_"), combined);
    // Longer than the limit, and with more chunks than a launch takes.
    run(3, 3, form.shape, [](const Rank& rank) {
      for (const std::uint32_t elements : {20'000u, 16'000u}) {
        const Sums sums(rank, elements);
        ASSERT_TRUE(sums.enqueue());
        sums.wait();
      }
    });
    EXPECT_EQ(launches_of(kernels) - fused, 15u);
    EXPECT_GT(launches_of("penstock_combine_"), combined);
  }
}

/// No event, no copy, no stream memory operation.
TEST_F(GpuFused, ProxysSmallCallIsOneOperation) {
  if (on_a_gpu()) GTEST_SKIP() << "a GPU does not count";
  constexpr std::uint32_t ranks = 2, calls = 20;
  make_pool(forms[6]);
  std::barrier<> all(ranks);
  run(ranks, ranks, forms[6].shape, [&](const Rank& rank) {
    const Sums sums(rank, 100);
    sums.wait();
    all.arrive_and_wait();
    const unsigned before = stream_operations();
    all.arrive_and_wait();
    for (std::uint32_t i = 0; i < calls; ++i) ASSERT_TRUE(sums.enqueue());
    EXPECT_TRUE(rank.gpu.drain());
    all.arrive_and_wait();
    EXPECT_EQ(stream_operations() - before, ranks * calls);
    all.arrive_and_wait();
  });
}

/// The program has destroyed the stream whose launch the communicator waits for when it ends. Work
/// before the launch on the stream ends late.
void close_before_the_launch(const Rank& rank) {
  constexpr std::chrono::milliseconds until_it_waits{50};
  Sums sums(rank, 100);
  sums.put(1);
  sums.wait();
  const auto words = *PinnedWords::make(*Device::current());
  const Device::Scope scope(rank.device);
  const cuda::Driver& driver = rank.device.driver();
  cuda::Stream stream = nullptr;
  ASSERT_EQ(driver.stream_create(&stream, cuda::stream_non_blocking), cuda::success);
  ASSERT_EQ(driver.wait_value(stream, words->at(0), 1, cuda::wait_value_geq), cuda::success);
  ASSERT_TRUE(sums.enqueue_on(stream));
  ASSERT_EQ(driver.stream_destroy(stream), cuda::success);
  rank.gpu.abort();
  std::atomic<bool> closed{false};
  std::thread closing([&] {
    rank.close();
    closed = true;
  });
  std::this_thread::sleep_for(until_it_waits);
  EXPECT_FALSE(closed);
  (*words)[0] = 1;
  closing.join();
  sums.wait();  // fails if the launch has used memory that was given back
}

TEST_F(GpuFused, LaunchesEndBeforeTheirCommunicator) {
  make_pool(forms[6]);
  run(2, 2, forms[6].shape, close_before_the_launch);
}

/// In place and not, at addresses that no wide load can use, also of zero elements.
void reduce_at_any_place(const Rank& rank) {
  constexpr std::size_t sizes[] = {0, 1, 3, 64, 255, 700};
  constexpr coll::Datatype types[] = {coll::Datatype::float8_e4m3, coll::Datatype::bfloat16,
                                      coll::Datatype::int32, coll::Datatype::float64};
  for (const std::size_t elements : sizes) {
    for (const coll::Datatype type : types) {
      for (const bool in_place : {false, true}) {
        const std::size_t width = bytes_of(type), skipped = elements % 3 * width;
        SCOPED_TRACE(fmt::format("{} {}{}", elements, name_of(type), in_place ? " in place" : ""));
        coll::Problem problem = reduction_problem(Collective::allreduce, rank, type, elements);
        problem.in_place = in_place;
        auto in = values_of(type, elements, rank.core.self(), elements);
        std::vector<std::byte> wanted(in.size());
        const auto reduction =
            *coll::Reduction::make(type, coll::Operation::average, rank.core.ranks());
        const coll::PredefinedArithmetic arithmetic(reduction);
        problem.in_place = false;
        ASSERT_TRUE(rank.core.run({.problem = &problem,
                                   .plan = rank.core.plan(problem),
                                   .input = in.data(),
                                   .output = wanted.data(),
                                   .arithmetic = &arithmetic}));
        problem.in_place = in_place;
        in.insert(in.begin(), skipped, std::byte{1});
        const DeviceBytes there(rank.device, in, rank.stream);
        const DeviceBytes result(rank.device, std::vector<std::byte>(in.size(), std::byte{1}),
                                 rank.stream);
        const auto& to = in_place ? there : result;
        const auto done = rank.gpu.enqueue(
            {.name = "average",
             .problem = problem,
             .input = there.at() + skipped,
             .output = to.at() + skipped,
             .reducing = Reducing{.type = type, .operation = coll::Operation::average}},
            rank.stream);
        ASSERT_TRUE(done) << done.error().message;
        wanted.insert(wanted.begin(), skipped, std::byte{1});
        EXPECT_EQ(to.read(), wanted);
        ASSERT_TRUE(rank.gpu.drain());
      }
    }
  }
}

TEST_F(GpuFused, AnySizeAndPlace) {
  for (const Form& form : by_one_launch) {
    make_pool(form);
    for (const std::uint32_t ranks : {1u, 2u, 3u})
      run(ranks, std::min(ranks, 3u), form.shape, reduce_at_any_place);
  }
}

TEST_F(GpuFused, MovesAndReducesAmongMoreRanks) {
  for (const Form& form : {forms[5], forms[6], forms[7]}) {
    make_pool(form);
    run(5, 3, form.shape, [](const Rank& rank) {
      move_in_turn(rank, base::seed_in_tests(), 15);
      reduce_both_ways(rank, Collective::reduce_scatter, coll::Datatype::float16,
                       coll::Operation::sum, 33);
      reduce_both_ways(rank, Collective::scan, coll::Datatype::float32, coll::Operation::maximum,
                       5);
    });
  }
}

/// Calls by launches, by lanes and on two streams of the program. Each adds to the result of the
/// one before, so that their order shows.
void add_up_on_two_streams(const Rank& rank) {
  constexpr std::uint32_t elements = 20'000, few = 50;
  constexpr int calls = 24;
  const Device::Scope scope(rank.device);
  const cuda::Driver& driver = rank.device.driver();
  cuda::Stream other = nullptr;
  ASSERT_EQ(driver.stream_create(&other, cuda::stream_non_blocking), cuda::success);
  std::vector<std::uint64_t> ones(elements, 1);
  std::vector<std::byte> bytes(elements * sizeof(std::uint64_t));
  std::memcpy(bytes.data(), ones.data(), bytes.size());
  const DeviceBytes memory(rank.device, bytes, rank.stream);
  (void)memory.read();                            // the memory is written, for both streams
  std::mt19937_64 random(base::seed_in_tests());  // the same on all ranks
  for (int i = 0; i < calls; ++i) {
    const std::uint64_t count = random() % 3 == 0 ? elements : few;
    const auto done = rank.gpu.enqueue(
        {.name = "sum",
         .problem = reduction_problem(Collective::allreduce, rank, coll::Datatype::uint64, count),
         .input = memory.at(),
         .output = memory.at(),
         .reducing = Reducing{.type = coll::Datatype::uint64}},
        random() % 2 == 0 ? rank.stream : other);
    ASSERT_TRUE(done) << done.error().message;
  }
  ASSERT_TRUE(rank.gpu.drain());
  std::uint64_t first = 0;
  const auto left = memory.read();
  std::memcpy(&first, left.data(), sizeof first);
  std::uint64_t wanted = 1;
  for (int i = 0; i < calls; ++i) wanted *= rank.core.ranks();
  EXPECT_EQ(first, wanted);
  ASSERT_EQ(driver.stream_destroy(other), cuda::success);
}

TEST_F(GpuFused, CallsAreInOrderWhicheverStreamAndForm) {
  for (const Form& form : by_one_launch) {
    make_pool(form);
    for (int turn = 0; turn < 3; ++turn) run(3, 3, form.shape, add_up_on_two_streams);
  }
}

TEST_F(GpuFused, WhichCallsAreMadeSo) {
  const auto limits = [](const char* asked, bool shares_gpu) {
    setenv("PENSTOCK_GPU_FUSED_BYTES", asked, 1);
    const auto found = FusedLaunches::limits(shares_gpu);
    setenv("PENSTOCK_GPU_FUSED_BYTES", "0", 1);
    return found ? fmt::format("{} {}", found->bytes, found->bytes_by_launches)
                 : found.error().message;
  };
  EXPECT_EQ(limits("", false), "65536 65536");
  EXPECT_EQ(limits("", true), "0 65536");
  EXPECT_EQ(limits("8K", true), "8192 8192");
  EXPECT_EQ(limits("0", false), "0 0");
  EXPECT_THAT(limits("much", false),
              HasSubstr("PENSTOCK_GPU_FUSED_BYTES is 'much'; it must be a number"));
}

}  // namespace
}  // namespace penstock::gpu
