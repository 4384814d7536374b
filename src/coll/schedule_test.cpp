// Every collective, by each algorithm, with 1 to 9 ranks and sizes that are odd, uneven or zero,
// against what MPI says that it gives; in the order of the list, and with both lanes side by side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/seed_in_tests.hpp"
#include "coll/problem.hpp"
#include "coll/test_calls.hpp"
#include "coll/test_model.hpp"

namespace penstock::coll {
namespace {

std::string run(const TestCall& w, const Plan& plan, bool two_lanes, std::uint64_t seed) {
  std::vector<Made> made;
  std::vector<ModelRank> ranks;
  for (std::uint32_t r = 0; r < w.ranks; ++r) {
    made.push_back(make(w, r));
    auto schedule = build(made[r].problem, plan);
    if (!schedule) return schedule.error().message;
    ranks.push_back(
        {*std::move(schedule), made[r].input, made[r].output, made[r].problem.in_place});
  }
  std::string fault = ScheduleModel(ranks, plan.slots, plan.slot_bytes, seed).run(two_lanes);
  for (std::uint32_t r = 0; r < w.ranks && fault.empty(); ++r)
    fault = check_result(w, made, r, ranks[r].in_place ? ranks[r].input : ranks[r].output);
  return fault;
}

class ScheduleTest : public testing::TestWithParam<std::tuple<int, std::uint32_t>> {};

TEST_P(ScheduleTest, GivesWhatTheCollectivePromises) {
  const auto collective = static_cast<Collective>(std::get<0>(GetParam()));
  const std::uint32_t ranks = std::get<1>(GetParam());
  std::mt19937_64 random(base::seed_in_tests() + ranks);
  for (int i = 0; i < 120; ++i) {
    const TestCall w = draw_call(collective, ranks, random);
    Plan plan;
    const bool two = random() % 2 == 0 &&
                     (collective == Collective::allreduce || collective == Collective::reduce);
    plan.algorithm = two ? Algorithm::two_shot : Algorithm::one_shot;
    plan.slots = static_cast<std::uint32_t>((two ? 4 : 2) + random() % 4);
    plan.slot_bytes = 64 * std::max(1u, ranks - 1) * (1 + random() % 3) + random() % 64;
    if (!two && w.known && random() % 3 == 0) {
      plan.variant = Variant::aggregate;
      plan.slots = 20;
    }
    const std::uint64_t seed = random();
    const bool two_lanes = i % 2 == 0;
    ASSERT_EQ(run(w, plan, two_lanes, seed), "")
        << "call " << i << ": " << name_of(collective) << ", " << ranks << " ranks, root " << w.root
        << (w.in_place ? ", in place" : "") << (two_lanes ? ", two lanes" : "") << ", "
        << name_of(plan.algorithm) << ", " << plan.slots << " slots of " << plan.slot_bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleTest,
                         testing::Combine(testing::Range(0, 11), testing::Range(1u, 10u)),
                         [](const auto& param) {
                           return std::string(
                                      name_of(static_cast<Collective>(std::get<0>(param.param)))) +
                                  "_" + std::to_string(std::get<1>(param.param));
                         });

Schedule schedule_of(Collective collective, std::uint32_t ranks, std::uint32_t rank,
                     std::uint64_t bytes, Algorithm algorithm) {
  TestCall w{collective, ranks, 0, false, true, {}};
  w.bytes.assign(ranks, std::vector<std::uint64_t>(ranks, bytes));
  const Made made = make(w, rank);
  auto schedule = build(made.problem, {.algorithm = algorithm, .slot_bytes = 1 << 16, .slots = 8});
  EXPECT_TRUE(schedule);
  return *std::move(schedule);
}

/// The table in docs/protocols/collectives.md.
TEST(ScheduleCounts, AreTheFormulas) {
  for (std::uint32_t n : {2u, 3u, 4u, 8u, 16u, 64u}) {
    const std::uint64_t s = word * n * 4096;
    const std::uint32_t last = n - 1;
    const auto traffic = [&](Collective collective, Algorithm algorithm = Algorithm::one_shot) {
      return traffic_of(schedule_of(collective, n, last, s, algorithm));
    };
    EXPECT_EQ(traffic(Collective::allgather).written_bytes, s);
    EXPECT_EQ(traffic(Collective::allgather).read_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::alltoall).written_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::alltoall).read_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::broadcast).written_bytes, 0u);
    EXPECT_EQ(traffic(Collective::broadcast).read_bytes, s);
    EXPECT_EQ(traffic(Collective::allreduce).written_bytes, s);
    EXPECT_EQ(traffic(Collective::allreduce).read_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::reduce_scatter).written_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::reduce_scatter).read_bytes, (n - 1) * s);
    EXPECT_EQ(traffic(Collective::scan).read_bytes, (n - 1) * s);
    // Flat: neither grows with the number of ranks.
    EXPECT_EQ(traffic(Collective::allreduce, Algorithm::two_shot).written_bytes, s);
    EXPECT_EQ(traffic(Collective::allreduce, Algorithm::two_shot).read_bytes, 2 * s / n * (n - 1));
    EXPECT_EQ(traffic(Collective::barrier).rings, 1u);
    EXPECT_EQ(traffic(Collective::barrier).waits, n - 1);
  }
}

/// A struct at the root, its members elsewhere: MPI compares signatures, not types.
TEST(ScheduleOfMovements, DoesNotDependOnElements) {
  TestCall w{Collective::broadcast, 2, 0, false, true, {}};
  w.bytes.assign(2, std::vector<std::uint64_t>(2, 24 * 50));
  std::vector<ModelRank> ranks;
  for (std::uint32_t r = 0; r < 2; ++r) {
    Made made = make(w, r);
    made.problem.element_bytes = r == 0 ? 24 : 8;
    ranks.push_back({*build(made.problem, {.slot_bytes = 500}), made.input, made.output, false});
  }
  EXPECT_EQ(ScheduleModel(ranks, 4, 500, 1).run(false), "");
}

TEST(SchedulePlans, AreRefusedInWords) {
  TestCall w{Collective::alltoall, 4, 0, false, true, {}};
  w.bytes.assign(4, std::vector<std::uint64_t>(4, 400));
  const Problem problem = make(w, 1).problem;
  const auto message = [&](const Problem& p, const Plan& plan) {
    const auto schedule = build(p, plan);
    return schedule ? "" : schedule.error().message;
  };
  using testing::HasSubstr;
  EXPECT_THAT(message(problem, {.slots = 1}),
              HasSubstr("1 slots for each rank; one_shot needs at least 2"));
  EXPECT_THAT(message(problem, {.slot_bytes = 100}),
              HasSubstr("a slot of 100 bytes holds no line of 64 bytes for each of 4"));
  EXPECT_THAT(message(problem, {.algorithm = Algorithm::two_shot}),
              HasSubstr("alltoall has no algorithm two_shot"));
  EXPECT_THAT(message(problem, {.variant = Variant::aggregate, .slot_bytes = 192, .slots = 4}),
              HasSubstr("a slot for each of 7 chunks, and there are 4"));
  Problem unknown = problem;
  unknown.max_block_bytes.reset();
  EXPECT_THAT(message(unknown, {.variant = Variant::aggregate}),
              HasSubstr("not all ranks know it"));
  Problem wrong = problem;
  wrong.max_block_bytes = 399;
  EXPECT_THAT(message(wrong, {}),
              HasSubstr("a block of 400 bytes, and 399 are said to be the most"));
  wrong = {.collective = Collective::allreduce,
           .ranks = 2,
           .element_bytes = 8,
           .input = {{0, 20}},
           .output = {{0, 20}}};
  EXPECT_THAT(message(wrong, {}), HasSubstr("a block of 20 bytes, elements have 8"));
  wrong = problem;
  wrong.rank = 4;
  EXPECT_THAT(message(wrong, {}), HasSubstr("ranks count from 0"));
  wrong = problem;
  wrong.output.pop_back();
  EXPECT_THAT(message(wrong, {}),
              HasSubstr("needs 4 blocks of input and 4 of output, and got 4 and 3"));
}

}  // namespace
}  // namespace penstock::coll
