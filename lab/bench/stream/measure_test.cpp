// Validation notices a wrong kernel, a wrong scalar, a wrong element, and data that did not arrive.
#include "bench/stream/measure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "base/environment_guard.hpp"
#include "bench/stream/libraries.hpp"
#include "bench/stream/targets.hpp"
#include "bench/stream/team.hpp"
#include "bench/stream/topology.hpp"
#include "bench/supervisor.hpp"
#include "pool/test_pool.hpp"

namespace penstock::bench::stream {
namespace {

using LeftOut = TargetSpec::LeftOut;
using testing::HasSubstr;

constexpr std::uint64_t elements = 4096;

/// Two threads if possible, on any CPUs.
Run small_run() {
  Run run;
  run.ntimes = 3;
  run.cpus = {allowed_cpus().front()};
#ifndef __SANITIZE_THREAD__  // it does not know libgomp's own synchronization
  if (has_openmp()) run.cpus.push_back(allowed_cpus().back());
#endif
  return run;
}

/// Memory of this process that can be made to fail.
class Faulty final : public Target {
 public:
  enum class Fault { none, kernel, scalar, element, part };
  explicit Faulty(Fault fault) : fault_(fault), memory_(3 * elements + line_elements) {
    auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    first_ = reinterpret_cast<double*>((at + 63) / 64 * 64);
  }
  Arrays arrays() const override {
    return {first_, first_ + elements, first_ + 2 * elements, elements};
  }
  Result<void> run(const Share& share) override {
    Share wrong = share;
    if (fault_ == Fault::kernel && share.kernel == Kernel::add) wrong.kernel = Kernel::triad;
    if (fault_ == Fault::scalar) wrong.scalar = 3.0000001;
    if (fault_ == Fault::part && share.kernel == Kernel::triad) wrong.count -= line_elements;
    run_plain(wrong);
    if (fault_ == Fault::element && share.first == 0) share.to[7] *= 1.0 + 1e-6;
    return {};
  }

 private:
  Fault fault_;
  std::vector<double> memory_;
  double* first_;
};

TEST(StreamMeasure, RightResultsPass) {
  Faulty target(Faulty::Fault::none);
  for (const bool first_touch : {false, true}) {
    auto run = small_run();
    run.first_touch = first_touch;
    const auto measured = measure(target, run);
    ASSERT_TRUE(measured) << measured.error().message;
    ASSERT_EQ(measured->timings.size(), 4u);
    for (const Timing& timing : measured->timings) {
      EXPECT_GT(timing.best_s, 0);
      EXPECT_LE(timing.best_s, timing.mean_s);
      EXPECT_LE(timing.mean_s, timing.worst_s * (1 + 1e-12));
      EXPECT_DOUBLE_EQ(timing.best_MBps * 1e6 * timing.best_s,
                       static_cast<double>(counted_bytes(timing.kernel, elements)));
    }
  }
}

TEST(StreamMeasure, NoticesEachKindOfWrongResult) {
  using Fault = Faulty::Fault;
  for (const Fault fault : {Fault::kernel, Fault::scalar, Fault::element, Fault::part}) {
    Faulty target(fault);
    const auto measured = measure(target, small_run());
    ASSERT_FALSE(measured) << static_cast<int>(fault);
    EXPECT_EQ(measured.error().code, ErrorCode::mismatch);
    EXPECT_THAT(measured.error().message, HasSubstr("the arrays are wrong after 3 runs"));
  }
}

TEST(StreamMeasure, SomeOfTheKernels) {
  for (const Kernel kernel : all_kernels) {
    Faulty target(Faulty::Fault::none);
    auto run = small_run();
    run.kernels = {kernel};
    const auto measured = measure(target, run);
    EXPECT_TRUE(measured) << kernel_name(kernel) << ": " << measured.error().message;
  }
}

TEST(StreamMeasure, ASignalEndsIt) {
  Faulty target(Faulty::Fault::none);
  const Interruptible interruptible;
  EXPECT_EQ(Interruptible::asked(), 0);
  raise(SIGINT);
  EXPECT_EQ(Interruptible::asked(), SIGINT);
  const auto measured = measure(target, small_run());
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().message, "interrupted");
}

TEST(StreamMeasure, BindsThreadsButNotTheCaller) {
  const std::vector<int> before = allowed_cpus();
  {
    const PinnedTeam team({before.back()});
    EXPECT_EQ(allowed_cpus(), std::vector{before.back()});
  }
  EXPECT_EQ(allowed_cpus(), before);
}

// ---- targets ------------------------------------------------------------------------------------

Result<Measured> measured(const TargetSpec& spec) {
  const auto run = small_run();
  auto target = open_target(spec, elements, static_cast<unsigned>(run.cpus.size()));
  if (!target) return unexpected(target.error());
  return measure(**target, run);
}

TEST(StreamTargets, OwnMemory) {
  for (const Store store : {Store::plain, Store::past_the_cache}) {
    const auto result = measured({.store = store});
    EXPECT_TRUE(result) << result.error().message;
  }
}

TEST(StreamTargets, ANumaNode) {
  if (!numa_library()) GTEST_SKIP() << numa_library().error().message;
  const auto topology = read_topology();
  ASSERT_TRUE(topology);
  const int node = topology->memories().front()->number;
  const auto result = measured({.kind = TargetSpec::Kind::numa, .node = node});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(result->facts, HasSubstr("node"));
  const auto none = max_elements({.kind = TargetSpec::Kind::numa, .node = 999});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("no memory on NUMA node 999; it has numa:"));
}

TEST(StreamTargets, ObjectsOfLibpmemobj) {
  if (!pmem_library()) GTEST_SKIP() << pmem_library().error().message;
  const pool::TestFolder folder;
  TargetSpec spec{.kind = TargetSpec::Kind::pmem, .place = folder.path()};
  for (const Promise promise :
       {Promise::none, Promise::persist, Promise::transaction, Promise::transaction_no_copy})
    for (const bool hoisted : {true, false}) {
      spec.promise = promise;
      spec.hoisted = hoisted;
      const auto result = measured(spec);
      ASSERT_TRUE(result) << spec.name() << ": " << result.error().message;
      EXPECT_THAT(result->facts, HasSubstr("pmem_persist is "));
      EXPECT_EQ(folder.entries(), 0u) << "nothing may be left";
    }
  spec.place += "/absent";
  const auto absent = max_elements(spec);
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, HasSubstr("name a folder that is there"));
}

/// No random events: data that was not observed stays old.
constexpr const char* calm = "evict=0,prefetch=0,drop_early=0";

class StreamPool : public testing::Test {
 protected:
  Result<Measured> run(coherence::Mode mode, Store store = Store::plain,
                       Promise promise = Promise::none, LeftOut left_out = LeftOut::nothing) {
    return measured({.kind = TargetSpec::Kind::pool,
                     .promise = promise,
                     .store = store,
                     .place = folder_.file("pool"),
                     .mode = mode,
                     .left_out = left_out});
  }
  pool::TestFolder folder_;
};

TEST_F(StreamPool, InEveryMode) {
  using coherence::Mode;
  for (const Mode mode : {Mode::hardware, Mode::software, Mode::uncached, Mode::simulated})
    for (const Store store : {Store::plain, Store::past_the_cache})
      for (const Promise promise : {Promise::none, Promise::observe}) {
        const auto result = run(mode, store, promise);
        ASSERT_TRUE(result) << coherence::mode_name(mode) << ": " << result.error().message;
        EXPECT_THAT(result->facts, HasSubstr(coherence::mode_name(mode)));
        EXPECT_EQ(folder_.entries(), 0u) << "the pool was made for it";
      }
}

TEST_F(StreamPool, NoticesStoresThatWereNotPublished) {
  const base::EnvironmentGuard quiet("PENSTOCK_SIM_FAULTS", calm);
  const auto result =
      run(coherence::Mode::simulated, Store::plain, Promise::none, LeftOut::publish);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::mismatch) << result.error().message;
}

TEST_F(StreamPool, AReaderThatDoesNotObserveIsNoticed) {
  const base::EnvironmentGuard quiet("PENSTOCK_SIM_FAULTS", calm);
  for (const Store store : {Store::plain, Store::past_the_cache}) {
    const auto result = run(coherence::Mode::simulated, store, Promise::none, LeftOut::observe);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::mismatch) << result.error().message;
  }
}

TEST_F(StreamPool, Transactions) {
  using coherence::Mode;
  for (const Mode mode : {Mode::hardware, Mode::software, Mode::simulated}) {
    const auto result = run(mode, Store::plain, Promise::transaction);
    ASSERT_TRUE(result) << coherence::mode_name(mode) << ": " << result.error().message;
    EXPECT_EQ(folder_.entries(), 0u) << "the pool was made for it";
  }
}

TEST_F(StreamPool, OneThatIsThereIsLeftAsFound) {
  const std::string spec = folder_.file("pool");
  ASSERT_TRUE(pool::create(
      {.spec = spec, .bytes = pool::test_pool_bytes, .mode = coherence::Mode::software}));
  const auto result = run(coherence::Mode::software);
  ASSERT_TRUE(result) << result.error().message;
  const auto info = pool::inspect(spec);
  ASSERT_TRUE(info);
  EXPECT_GT(*max_elements({.kind = TargetSpec::Kind::pool, .place = spec}), elements);
}

}  // namespace
}  // namespace penstock::bench::stream
