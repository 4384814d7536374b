// Times of the engine's schedules, compared with formulas of the bytes that they move and the
// accesses that they make; none may become slower than it is.
#include "model/collectives.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/published.hpp"
#include "schedule/uniform.hpp"

namespace penstock::model {
namespace {

using coll::Algorithm;
using coll::Collective;

const PlatformSet& named(const char* name) {
  return **find_platform(name);
}

double seconds(const PlatformSet& set, const PoolCase& call, const coll::Plan& plan) {
  const auto outcome = run_on_pool(set, call, plan);
  EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message);
  return outcome ? outcome->seconds : 0;
}

/// Every collective by every plan, on every platform, with one rank and four ranks on a host.
TEST(Collectives, AllSchedulesEnd) {
  std::size_t calls = 0, in_switch = 0;
  auto sets = platform_sets();
  for (const char* switches : {"switches=1", "switches=3,exact=1", "switches=8,inside=1"}) {
    sets.push_back(named(sets.size() % 2 == 0 ? "gpu" : "cpu"));
    ASSERT_TRUE(change(sets.back(), switches));
  }
  for (const PlatformSet& set : sets) {
    for (std::size_t i = 0; i < coll::collective_count; ++i) {
      for (const std::uint32_t ranks : {1u, 2u, 3u, 5u, 8u, 12u}) {
        for (const std::uint32_t per_node : {1u, 4u}) {
          for (const std::uint64_t bytes : {8u, 5000u, 900'000u}) {
            const auto collective = static_cast<Collective>(i);
            const PoolCase call{collective, ranks, per_node, block_of(collective, ranks, bytes)};
            for (const PlannedCall& plan : plans_of(set, call)) {
              const auto outcome = run_on_pool(set, call, plan.plan);
              ASSERT_TRUE(outcome) << name_of(collective) << ", " << ranks << " ranks, " << plan.how
                                   << ": " << outcome.error().message;
              ++calls;
              if (plan.plan.in_switch) ++in_switch;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(calls, 2000u);
  EXPECT_GT(in_switch, 300u);
}

TEST(Collectives, AScheduleThatNeverEndsIsNamed) {
  const PoolCase call{Collective::allgather, 2, 1, 4096};
  std::vector<coll::Schedule> schedules;
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    schedules.push_back(
        *coll::build(coll::uniform_problem(Collective::allgather, 2, rank, 0, call.block), {}));
  std::erase_if(schedules[1].steps,
                [](const coll::Step& step) { return step.kind == coll::StepKind::ring; });
  const auto outcome = run_schedules(named("cpu"), call, schedules);
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message,
              testing::HasSubstr("1 of 2 lanes never end, the first of them is rank 0"));
}

/// The time for a rank's share of the work at 20 GB/s, S = 1, on the busiest of its engine and the
/// devices. With N ranks on 6 devices, each device carries the bytes that N / 6 ranks publish, and
/// all reads of these.
struct Bound {
  Collective collective;
  std::uint32_t ranks;
  double shares;         ///< multiples of S / 20 GB/s
  double slower = 1.02;  ///< greatest factor over the bound; the rest is the first chunk
  Algorithm algorithm = Algorithm::one_shot;
  bool turns = false;
};

class BoundTest : public testing::TestWithParam<Bound> {};

/// If N divides 6 or 6 divides N the default schedules are as fast as their bytes allow. For the
/// others the second number keeps them from becoming slower.
TEST_P(BoundTest, IsKept) {
  const Bound& bound = GetParam();
  const PlatformSet& set = named("cccl");
  const std::uint64_t bytes = 100 * set.slot_bytes * bound.ranks;
  const PoolCase call{bound.collective, bound.ranks, 1,
                      block_of(bound.collective, bound.ranks, bytes)};
  const coll::Plan plan{.algorithm = bound.algorithm,
                        .slot_bytes = set.slot_bytes,
                        .slots = set.slots,
                        .turns = bound.turns};
  const double whole = static_cast<double>(bytes) / 20e9;
  EXPECT_GE(seconds(set, call, plan), bound.shares * whole * 0.999);
  EXPECT_LE(seconds(set, call, plan), bound.shares * whole * bound.slower);
}

constexpr Algorithm one = Algorithm::one_shot, two = Algorithm::two_shot;
INSTANTIATE_TEST_SUITE_P(
    All, BoundTest,
    testing::Values(
        // a rank reads (N - 1) S; a device carries N S for each rank on it
        Bound{Collective::allgather, 2, 1}, Bound{Collective::allgather, 3, 2},
        Bound{Collective::allgather, 6, 6}, Bound{Collective::allgather, 12, 24},
        Bound{Collective::allreduce, 6, 6, 1.02, one},
        Bound{Collective::allreduce, 12, 24, 1.02, one},
        // a rank reads (N - 1) / N S; a device carries twice that for each rank on it
        Bound{Collective::alltoall, 2, 1 / 2.}, Bound{Collective::alltoall, 3, 2 / 3.},
        Bound{Collective::alltoall, 6, 10 / 6.}, Bound{Collective::alltoall, 12, 44 / 12.},
        Bound{Collective::reduce_scatter, 3, 2 / 3.}, Bound{Collective::reduce_scatter, 6, 10 / 6.},
        Bound{Collective::reduce_scatter, 12, 44 / 12.},
        // the input is read once, and the result N - 1 times
        Bound{Collective::allreduce, 2, 1, 1.02, two},
        Bound{Collective::allreduce, 6, 16 / 6., 1.02, two},
        Bound{Collective::allreduce, 12, 68 / 12., 1.02, two},
        // the root's engine is the bound
        Bound{Collective::gather, 6, 5}, Bound{Collective::gather, 12, 11},
        Bound{Collective::scatter, 3, 2}, Bound{Collective::scatter, 12, 11},
        Bound{Collective::reduce, 3, 2}, Bound{Collective::reduce, 6, 5, 1.06},
        Bound{Collective::broadcast, 2, 1}, Bound{Collective::broadcast, 3, 1, 1.02, one, true},
        Bound{Collective::broadcast, 4, 1, 1.02, one, true},
        // the bound is not reached: readers meet on a device and stay together
        Bound{Collective::broadcast, 3, 1, 2.01}, Bound{Collective::broadcast, 12, 2, 5.6},
        Bound{Collective::broadcast, 12, 2, 1.6, one, true},
        Bound{Collective::allgather, 4, 3, 1.35}, Bound{Collective::allgather, 8, 64 / 6., 1.55},
        Bound{Collective::allreduce, 4, 1.5, 1.7, two},
        Bound{Collective::allreduce, 3, 4 / 3., 1.65, two}, Bound{Collective::alltoall, 4, 1, 1.85},
        Bound{Collective::alltoall, 8, 14 / 6., 1.52}));

/// Two streams that meet on a device stay together under fair shares, and separate if the device
/// serves one at a time.
TEST(Collectives, TurnsOfDevicesPartConvoys) {
  PlatformSet fair = named("cccl"), turns = fair;
  ASSERT_TRUE(change(turns, "turns=1"));
  const std::uint64_t bytes = 64 << 20;
  for (const std::uint32_t ranks : {3u, 6u}) {
    const PoolCase call{Collective::broadcast, ranks, 1, bytes};
    const coll::Plan plan{.slot_bytes = 1 << 18, .slots = 64};
    EXPECT_LT(seconds(turns, call, plan), 0.6 * seconds(fair, call, plan));
  }
}

/// Reads matched with the writers' order wait less: the design's 1.48 at 3 ranks and 12 chunks.
TEST(Collectives, OrderOfReadsCounts) {
  const std::uint64_t bytes = 3 * 12 << 20;
  const PoolCase call{Collective::alltoall, 3, 1, bytes / 3};
  const auto time = [&](ReadOrder order) {
    const auto schedules = published(Collective::alltoall, 3, bytes, 12, order);
    return run_schedules(named("cccl"), call, *schedules)->seconds;
  };
  EXPECT_NEAR(time(ReadOrder::after) / time(ReadOrder::before), 1.48, 0.005);
}

/// Small calls cost accesses, not bytes: eager ones a store and a look; those by slots a fence and
/// a doorbell, a look at it and one at the chunks.
TEST(Collectives, SmallOnesAreAccesses) {
  const PlatformSet& set = named("cpu");
  const Platform p = set.platform();
  const double micro = 1e-6;
  for (const std::uint32_t ranks : {2u, 3u, 8u}) {
    for (const Collective collective : {Collective::allreduce, Collective::allgather}) {
      const PoolCase call{collective, ranks, 1, 8};
      const double few = 0.1 * micro;  // the time of their bytes
      const coll::Plan eager{.eager = true};
      EXPECT_NEAR(seconds(set, call, eager), (p.store_us + p.load_us) * micro, few);
      EXPECT_NEAR(seconds(set, call, {}), (p.fence_us + p.store_us + 2 * p.load_us) * micro, few);
    }
    const coll::Plan two_shot{.algorithm = Algorithm::two_shot};
    EXPECT_NEAR(seconds(set, {Collective::allreduce, ranks, 1, 8 * ranks}, two_shot),
                2 * (p.fence_us + p.store_us + 2 * p.load_us) * micro, 0.1 * micro);
    EXPECT_NEAR(seconds(set, {Collective::barrier, ranks, 1, 0}, {}),
                (p.fence_us + p.store_us + p.load_us) * micro, 1e-9);
  }
}

/// Of every byte a device carries what a schedule says; the links of hosts carry it too.
TEST(Collectives, CarryTheBytesOfTheSchedules) {
  const PlatformSet& set = named("gpu");
  const PoolCase call{Collective::allgather, 6, 1, 64 << 20};
  const auto outcome = run_on_pool(set, call, {.slot_bytes = set.slot_bytes, .slots = 4});
  ASSERT_TRUE(outcome);
  const double s = static_cast<double>(call.block);
  for (const Utilization& each : outcome->utilization) {
    if (each.what == "devices") {
      EXPECT_NEAR(each.share, 6 * s / 20e9 / outcome->seconds, 1e-6);
    } else if (each.what == "links from the pool") {
      EXPECT_NEAR(each.share, 5 * s / 63e9 / outcome->seconds, 1e-6);
    } else if (each.what == "the switch") {
      EXPECT_NEAR(each.share, 36 * s / 2000e9 / outcome->seconds, 1e-6);
    }
  }
}

/// Bytes on the busiest resource of one kind.
double carried(const PlatformSet& set, const Outcome& outcome, const char* what, double GBps) {
  for (const Utilization& each : outcome.utilization)
    if (each.what == what) return each.share * GBps * 1e9 * outcome.seconds;
  ADD_FAILURE() << "no " << what << " on " << set.name;
  return 0;
}

/// Bytes on a host's link: the table of docs/protocols/switch.md, and the counts of
/// `switch_counts`.
struct OnALink {
  Collective collective;
  std::uint32_t ranks;
  std::uint64_t bytes;
  std::uint64_t up, down;
};

TEST(InASwitch, LinksCarryWhatTheSwitchCounts) {
  PlatformSet set = named("gpu");
  ASSERT_TRUE(change(set, "switches=1"));
  for (const OnALink& each :
       {OnALink{Collective::allreduce, 2, 65536, 65600, 65600},
        OnALink{Collective::allreduce, 4, 1 << 20, 1048832, 1048832},
        OnALink{Collective::allreduce, 16, 16 << 20, 16781312, 16781312},
        OnALink{Collective::reduce_scatter, 2, 65536, 65600, 32832},
        OnALink{Collective::reduce_scatter, 2, 1 << 20, 1048832, 524544},
        OnALink{Collective::reduce_scatter, 2, 16 << 20, 16781312, 8392704}}) {
    const PoolCase call{each.collective, each.ranks, 1,
                        block_of(each.collective, each.ranks, each.bytes)};
    const auto outcome = run_on_pool(set, call, {.in_switch = true});
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_NEAR(carried(set, *outcome, "links to the pool", 63), each.up, 1);
    EXPECT_NEAR(carried(set, *outcome, "links from the pool", 63), each.down, 1);
    for (const Algorithm algorithm : {one, two}) {
      if (algorithm == two && each.collective != Collective::allreduce) continue;
      const auto plain = run_on_pool(set, call, {.algorithm = algorithm, .slot_bytes = 1 << 18});
      const double n = each.ranks, s = each.bytes;
      const bool scatters = each.collective == Collective::reduce_scatter;
      const double up = scatters ? s * (n - 1) / n : s;
      const double down = scatters ? up : algorithm == one ? (n - 1) * s : 2 * s * (n - 1) / n;
      EXPECT_NEAR(carried(set, *plain, "links to the pool", 63), up, 1);
      EXPECT_NEAR(carried(set, *plain, "links from the pool", 63), down, 1);
    }
  }
}

/// The switch gathers N S and returns S; devices carry that, and the hosts' writes and reads,
/// unless the slots lie inside the switch. Leaves save the spine's bytes if any order gives the
/// same bits.
TEST(InASwitch, SwitchesAndDevicesCarryTheirShares) {
  const double n = 8, s = 16 << 20, packets = 2 * n * 64 * 64;
  const PoolCase call{Collective::allreduce, 8, 1, 16 << 20};
  const auto run = [&](const char* how) {
    PlatformSet set = named("gpu");
    EXPECT_TRUE(change(set, how));
    const auto outcome = run_on_pool(set, call, {.in_switch = true});
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message);
    return std::pair(set, *outcome);
  };
  const auto [set, outcome] = run("switches=1,accel=64,combine=100");
  EXPECT_NEAR(carried(set, outcome, "switches that compute", 64), (n + 1) * s, 1);
  EXPECT_NEAR(carried(set, outcome, "their arithmetic", 100), n * s, 1);
  EXPECT_NEAR(carried(set, outcome, "devices", 20), ((3 * n + 1) * s + packets) / 6, 6);
  const auto [inside_set, inside] = run("switches=1,accel=64,combine=100,inside=1");
  EXPECT_NEAR(carried(inside_set, inside, "devices", 20), 0, 1);
  EXPECT_LT(inside.seconds, outcome.seconds);
  // The busiest switch is the spine: it carries all operands, or one from each of two leaves and
  // theirs.
  const auto [tree_set, tree] = run("switches=3,accel=64,combine=100");
  EXPECT_NEAR(carried(tree_set, tree, "switches that compute", 64), (n + 1) * s, 1);
  const auto [exact_set, exact] = run("switches=3,accel=64,combine=100,exact=1");
  EXPECT_NEAR(carried(exact_set, exact, "switches that compute", 64), (n / 2 + 1 + 2) * s, 1);
}

/// Like small calls of the plain pool: a packet, a look at all of them, an answer, a look.
TEST(InASwitch, SmallOnesAreAccesses) {
  PlatformSet set = named("cpu");
  const Platform p = set.platform();
  const double there = (p.fence_us + p.store_us + p.load_us) * 1e-6;
  ASSERT_TRUE(change(set, "switches=1"));
  for (const PoolCase& call :
       {PoolCase{Collective::barrier, 8, 1, 0}, PoolCase{Collective::allreduce, 8, 1, 16}})
    EXPECT_NEAR(seconds(set, call, {.in_switch = true}), 2 * there, 1e-7);
  ASSERT_TRUE(change(set, "switches=3"));
  EXPECT_NEAR(seconds(set, {Collective::barrier, 8, 1, 0}, {.in_switch = true}), 4 * there, 1e-7);
  EXPECT_FALSE(run_on_pool(set, {Collective::alltoall, 8, 1, 64}, {.in_switch = true}));
}

/// A timeline shows the whole call: it begins at 0, ends at the call's end, and shows each byte
/// once.
TEST(Collectives, TimelinesAreWhole) {
  const PlatformSet& set = named("gpu");
  const PoolCase call{Collective::alltoall, 4, 1, 1 << 20};
  const auto outcome = run_on_pool(set, call, {.slot_bytes = set.slot_bytes, .slots = 4}, true);
  ASSERT_TRUE(outcome);
  std::uint64_t written = 0, read = 0, last = 0;
  for (const coll::TraceSpan& span : outcome->spans) {
    EXPECT_LE(span.begin_ns, span.end_ns);
    EXPECT_LT(span.rank, 4u);
    last = std::max(last, span.end_ns);
    if (span.kind == coll::StepKind::publish) written += span.bytes;
    if (span.kind == coll::StepKind::copy) read += span.bytes;
  }
  EXPECT_EQ(written, 4u * 3 << 20);
  EXPECT_EQ(read, written);
  EXPECT_NEAR(static_cast<double>(last), outcome->seconds * 1e9, 1);
}

TEST(Platforms, AreChangedByName) {
  PlatformSet set = named("cccl");
  ASSERT_TRUE(change(set, "device=30.5,duplex=1,devices=4"));
  EXPECT_EQ(set.platform().device_GBps, 30.5);
  EXPECT_EQ(set.platform().duplex, 1);
  EXPECT_EQ(set.platform().write_GBps, 20);
  EXPECT_EQ(set.devices, 4u);
  using testing::HasSubstr;
  EXPECT_THAT(change(set, "devise=3").error().message,
              HasSubstr("a platform has no 'devise'; it has device, duplex"));
  EXPECT_THAT(change(set, "device=").error().message, HasSubstr("'device=' is no NAME=NUMBER"));
  EXPECT_THAT(change(set, "device=-1").error().message, HasSubstr("from 0 to 1000000"));
  for (const char* wrong : {"duplex=0.5", "turns=2", "cached=3"})
    EXPECT_THAT(change(set, wrong).error().message, HasSubstr(": 0 or 1 is needed"));
  for (const char* wrong : {"lanes=0", "lanes=1.5", "lanes=3"})
    EXPECT_THAT(change(set, wrong).error().message, HasSubstr(": 1 or 2 is needed"));
  EXPECT_THAT(change(set, "link=1e-300").error().message, HasSubstr("at least 0.001 GB/s"));
  EXPECT_TRUE(change(set, "lanes=2,duplex=0,link=0"));
  EXPECT_THAT(change(set, "switches=9").error().message, HasSubstr("0 to 8 are modelled"));
  EXPECT_THAT(change(set, "devices=17").error().message, HasSubstr("1 to 16 are modelled"));
  EXPECT_THAT(find_platform("nobody").error().message,
              HasSubstr("there is no platform 'nobody'; there are cccl, gpu, cpu, niagara"));
  for (const PlatformSet& each : platform_sets())
    for (const auto& value : each.values) EXPECT_FALSE(value.source.empty());
}

}  // namespace
}  // namespace penstock::model
