// Every collective by each algorithm, with 1 to 9 ranks and sizes that are odd, uneven or zero,
// compared with the results that MPI defines. Steps run in list order, and with both lanes side by
// side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/seed_in_tests.hpp"
#include "schedule/problem.hpp"
#include "schedule/test_calls.hpp"
#include "schedule/test_model.hpp"
#include "schedule/together.hpp"

namespace penstock::coll {
namespace {

std::string run(const TestCall& w, const Plan& plan, const NodeMap& nodes, bool two_lanes,
                std::uint64_t seed) {
  std::vector<Made> made;
  std::vector<ModelRank> ranks;
  for (std::uint32_t r = 0; r < w.ranks; ++r) {
    made.push_back(make(w, r));
    auto schedule = build(made[r].problem, plan, nodes);
    if (!schedule) return schedule.error().message;
    ranks.push_back(
        {*std::move(schedule), made[r].input, made[r].output, made[r].problem.in_place});
  }
  const auto places = static_cast<std::uint32_t>(plan.slots + seed % 4);
  std::string fault =
      ScheduleModel(ranks, plan.slots, plan.slot_bytes, seed, places).run(two_lanes);
  for (std::uint32_t r = 0; r < w.ranks && fault.empty(); ++r)
    fault = check_result(w, made, r, ranks[r].in_place ? ranks[r].input : ranks[r].output);
  return fault;
}

/// Places the ranks on 1 to 3 nodes, in random order.
NodeMap draw_nodes(std::uint32_t ranks, std::mt19937_64& random) {
  const std::uint64_t count = 1 + random() % 3;
  std::vector<std::uint64_t> nodes;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) nodes.push_back(7 + random() % count);
  return NodeMap(std::move(nodes));
}

class ScheduleTest : public testing::TestWithParam<std::tuple<int, std::uint32_t>> {};

TEST_P(ScheduleTest, GivesWhatTheCollectivePromises) {
  const auto collective = static_cast<Collective>(std::get<0>(GetParam()));
  const std::uint32_t ranks = std::get<1>(GetParam());
  std::mt19937_64 random(base::seed_in_tests() + ranks);
  for (int i = 0; i < 120; ++i) {
    const TestCall w = draw_call(collective, ranks, random);
    const Plan plan = draw_plan(collective, ranks, random);
    const NodeMap nodes = draw_nodes(ranks, random);
    const std::uint64_t seed = random();
    const bool two_lanes = i % 2 == 0;
    ASSERT_EQ(run(w, plan, nodes, two_lanes, seed), "")
        << "call " << i << ": " << name_of(collective) << ", " << ranks << " ranks, root " << w.root
        << (w.in_place ? ", in place" : "") << (two_lanes ? ", two lanes" : "") << ", "
        << name_of(plan.algorithm) << ", " << name_of(plan.variant) << ", " << plan.slots
        << " slots of " << plan.slot_bytes << ", " << plan.chunks << " chunks"
        << (plan.turns ? ", turns" : "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleTest,
                         testing::Combine(testing::Range(0, static_cast<int>(collective_count)),
                                          testing::Range(1u, 10u)),
                         [](const auto& param) {
                           return std::string(
                                      name_of(static_cast<Collective>(std::get<0>(param.param)))) +
                                  "_" + std::to_string(std::get<1>(param.param));
                         });

/// The formulas of the table in docs/protocols/collectives.md.
TEST(ScheduleCounts, AreTheFormulas) {
  for (std::uint32_t n : {2u, 3u, 4u, 8u, 16u, 64u}) {
    const std::uint64_t s = test_word * n * 4096;
    const std::uint32_t last = n - 1;
    const auto traffic = [&](Collective collective, Algorithm algorithm = Algorithm::one_shot) {
      return traffic_of(schedule_of(collective, n, last, s,
                                    {.algorithm = algorithm, .slot_bytes = 1 << 16, .slots = 8}));
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
    // Neither grows with the number of ranks.
    EXPECT_EQ(traffic(Collective::allreduce, Algorithm::two_shot).written_bytes, s);
    EXPECT_EQ(traffic(Collective::allreduce, Algorithm::two_shot).read_bytes, 2 * s / n * (n - 1));
    EXPECT_EQ(traffic(Collective::barrier).rings, 1u);
    EXPECT_EQ(traffic(Collective::barrier).waits, n - 1);
  }
}

/// A round of small chunks takes two accesses, for any number of ranks.
TEST(ScheduleCounts, ARoundIsTwoAccesses) {
  for (const std::uint32_t n : {2u, 3u, 8u, 64u}) {
    const auto accesses = [&](Collective collective, std::uint64_t bytes,
                              Algorithm algorithm = Algorithm::one_shot) {
      return accesses_of(schedule_of(collective, n, n - 1, bytes,
                                     {.algorithm = algorithm, .slot_bytes = 1 << 20, .slots = 4}));
    };
    const std::uint64_t small = max_bytes_together / n / 64 * 64;
    EXPECT_EQ(accesses(Collective::allgather, small), 2u);
    EXPECT_EQ(accesses(Collective::alltoall, small), 2u);
    EXPECT_EQ(accesses(Collective::broadcast, small), 2u);
    EXPECT_EQ(accesses(Collective::allreduce, small), 2u);
    EXPECT_EQ(accesses(Collective::allreduce, small, Algorithm::two_shot), 4u);
    EXPECT_EQ(accesses(Collective::barrier, 0), 1u);
    EXPECT_EQ(accesses(Collective::allgather, max_bytes_together), n);  // one for each other rank
  }
}

/// The traffic of all ranks of the last node, with `nodes` nodes of `each` ranks, root 0.
Traffic traffic_of_node(Collective collective, Algorithm algorithm, std::uint32_t nodes,
                        std::uint32_t each, std::uint64_t bytes) {
  std::vector<std::uint64_t> numbers;
  for (std::uint32_t rank = 0; rank < nodes * each; ++rank) numbers.push_back(rank / each);
  const NodeMap map(numbers);
  Traffic all;
  for (std::uint32_t rank = (nodes - 1) * each; rank < nodes * each; ++rank) {
    const Plan plan{.algorithm = algorithm, .slot_bytes = 1 << 16, .slots = 4};
    const auto schedule = schedule_of(collective, nodes * each, rank, bytes, plan, map);
    const Traffic traffic = traffic_of(schedule, map, rank);
    all.written_bytes += traffic.written_bytes;
    all.read_bytes += traffic.read_bytes;
    all.remote_bytes += traffic.remote_bytes;
  }
  return all;
}

/// The formulas of the second table: K nodes of L ranks.
TEST(ScheduleCounts, OfTwoLevelsAreTheFormulas) {
  using enum Collective;
  using enum Algorithm;
  for (const std::uint32_t k : {2u, 3u, 4u}) {
    for (const std::uint32_t l : {1u, 2u, 4u}) {
      const std::uint64_t n = k * l, s = test_word * n * 4096, others = n - l;
      for (const Algorithm algorithm : {two_level, leaders}) {
        const auto gathered = traffic_of_node(allgather, algorithm, k, l, s);
        EXPECT_EQ(gathered.remote_bytes, others * s);
        EXPECT_EQ(gathered.read_bytes, l * (n - 1) * s);
        EXPECT_EQ(gathered.written_bytes, l * s + (l > 1 ? others * s : 0));
        const auto cast = traffic_of_node(broadcast, algorithm, k, l, s);
        EXPECT_EQ(cast.remote_bytes, s);
        EXPECT_EQ(cast.read_bytes, l * s);
        EXPECT_EQ(cast.written_bytes, l > 1 ? s : 0);
        const auto reduced = traffic_of_node(allreduce, algorithm, k, l, s);
        EXPECT_EQ(reduced.remote_bytes, (l + 1) * others * s / n);
        EXPECT_EQ(reduced.read_bytes, l * 2 * s / n * (n - 1));
      }
      EXPECT_EQ(traffic_of_node(allgather, one_shot, k, l, s).remote_bytes, l * others * s);
      EXPECT_EQ(traffic_of_node(broadcast, one_shot, k, l, s).remote_bytes, l * s);
      EXPECT_EQ(traffic_of_node(allreduce, two_shot, k, l, s).remote_bytes, 2 * l * others * s / n);
    }
  }
}

/// Runs the ranks' schedules in turns, and records which arrivals each rank knows of.
struct Learned {
  explicit Learned(const NodeMap& nodes) : map(nodes) {
    for (std::uint32_t rank = 0; rank < map.ranks(); ++rank) {
      const Problem problem{.collective = Collective::barrier, .ranks = map.ranks(), .rank = rank};
      auto schedule = build(problem, {.algorithm = Algorithm::leaders, .slots = 4}, map);
      EXPECT_TRUE(schedule) << schedule.error().message;
      schedules.push_back(*std::move(schedule));
      of.emplace_back(map.ranks());
      of[rank][rank] = true;
    }
    done.resize(map.ranks());
  }
  /// Runs every step that is first in its lane and possible. The lane that rings goes first, so no
  /// host or GPU rings earlier.
  void follow_all() {
    for (bool some = true; some;) {
      some = false;
      for (std::uint32_t rank = 0; rank < map.ranks(); ++rank)
        for (const Lane lane : {Lane::write, Lane::read})
          while (step(rank, lane)) some = true;
    }
  }
  bool all_done(std::uint32_t rank) const { return done[rank].size() == steps(rank).size(); }

  const NodeMap& map;
  std::vector<Schedule> schedules;
  std::vector<std::vector<bool>> of;

 private:
  const std::vector<Step>& steps(std::uint32_t rank) const { return schedules[rank].steps; }
  bool step(std::uint32_t rank, Lane lane) {
    std::int64_t i = 0;
    const auto all = static_cast<std::int64_t>(steps(rank).size());
    while (i < all && (steps(rank)[i].lane != lane || done[rank].contains(i))) ++i;
    if (i == all || (steps(rank)[i].after >= 0 && !done[rank].contains(steps(rank)[i].after)))
      return false;
    const Step& next = steps(rank)[i];
    if (next.kind == StepKind::ring) rung_by[{rank, next.chunk}] = of[rank];
    if (next.kind == StepKind::wait && !learn(rank, next)) return false;
    done[rank].insert(i);
    return true;
  }
  bool learn(std::uint32_t rank, const Step& wait) {
    const auto found = rung_by.find({wait.rank, wait.chunk});
    if (found == rung_by.end()) return false;
    for (std::uint32_t r = 0; r < map.ranks(); ++r) of[rank][r] = of[rank][r] || found->second[r];
    return true;
  }

  std::vector<std::set<std::int64_t>> done;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<bool>> rung_by;
};

/// Nodes of `each` ranks. Ranks are dealt to nodes in blocks or in turn.
NodeMap nodes_of_each(std::uint32_t nodes, std::uint32_t each, bool by_turns) {
  std::vector<std::uint64_t> of;
  for (std::uint32_t rank = 0; rank < nodes * each; ++rank)
    of.push_back(by_turns ? rank % nodes : rank / each);
  return NodeMap(of);
}

TEST(TreeBarrier, LetsNobodyGoBeforeAllHaveCome) {
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> sizes = {
      {1, 1},  {1, 2},  {2, 1},  {3, 2},   {1, 40}, {16, 1},
      {17, 1}, {17, 3}, {40, 2}, {1, 300}, {64, 4}};
  for (const auto& [count, each] : sizes) {
    for (const bool by_turns : {false, true}) {
      const NodeMap nodes = nodes_of_each(count, each, by_turns);
      Learned learned(nodes);
      learned.follow_all();
      for (std::uint32_t rank = 0; rank < nodes.ranks(); ++rank) {
        const auto where = fmt::format("{} nodes of {}, rank {}", count, each, rank);
        EXPECT_TRUE(learned.all_done(rank)) << where;
        EXPECT_THAT(learned.of[rank], testing::Each(true)) << where;
      }
    }
  }
}

/// At most 16 waits in its node, and two steps of the leaders, for any number of ranks.
TEST(TreeBarrier, NobodyLooksAtMany) {
  for (const auto& [count, each] : {std::pair{64u, 64u}, {128u, 64u}, {1000u, 2u}}) {
    const NodeMap nodes = nodes_of_each(count, each, false);
    for (std::uint32_t rank = 0; rank < nodes.ranks(); rank += each - 1) {
      const Problem problem{
          .collective = Collective::barrier, .ranks = nodes.ranks(), .rank = rank};
      const auto schedule = *build(problem, {.algorithm = Algorithm::leaders, .slots = 4}, nodes);
      const Traffic traffic = traffic_of(schedule, nodes, rank);
      EXPECT_LE(traffic.waits, count <= 256 ? 16u + 2 * 15 : 16u + 2 * 31);
      EXPECT_LE(traffic.rings, 4u);
      EXPECT_EQ(traffic.releases, 0u);
    }
  }
}

/// Blocks of 64 KB.
TEST(ScheduleChunks, AreAsManyAsAskedFor) {
  for (const std::uint32_t chunks : {1u, 2u, 3u, 7u, 16u}) {
    const Plan plan{.slot_bytes = 1 << 16, .chunks = chunks};
    EXPECT_EQ(traffic_of(schedule_of(Collective::allgather, 3, 1, 1 << 16, plan)).rings, chunks);
    const Plan two{.algorithm = Algorithm::two_shot, .slot_bytes = 1 << 17, .chunks = chunks};
    EXPECT_EQ(traffic_of(schedule_of(Collective::allreduce, 4, 1, 1 << 16, two)).rings, 2 * chunks);
  }
  const Plan few{.slot_bytes = 1 << 14, .chunks = 2};
  EXPECT_EQ(traffic_of(schedule_of(Collective::allgather, 3, 1, 1 << 16, few)).rings, 4u);
}

/// Root 1 of 5: ranks 2, 3, 4 and 0 follow it in this order.
TEST(ScheduleTurns, AreAWavefrontBehindTheRoot) {
  TestCall w{Collective::broadcast, 5, 1, false, true, {}};
  w.bytes.assign(5, std::vector<std::uint64_t>(5, 6 * 64));
  const auto waits_of = [&](std::uint32_t rank) {
    std::vector<std::uint64_t> waits;
    const auto schedule = build(make(w, rank).problem, {.slot_bytes = 64, .turns = true});
    for (const Step& step : schedule->steps)
      if (step.kind == StepKind::wait) waits.push_back(step.chunk);
    return waits;
  };
  using testing::ElementsAre;
  EXPECT_THAT(waits_of(2), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(waits_of(3), ElementsAre(1, 2, 3, 4, 5, 5));
  EXPECT_THAT(waits_of(0), ElementsAre(3, 4, 5, 5, 5, 5));
}

/// A struct at the root, and its members elsewhere: MPI compares signatures, not types.
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
  EXPECT_THAT(message(problem, {.algorithm = Algorithm::two_level}),
              HasSubstr("two_level needs the node of each of 4 ranks, and 0 are told"));
  EXPECT_THAT(
      build(problem, {.algorithm = Algorithm::leaders}, NodeMap({0, 0, 1, 1})).error().message,
      HasSubstr("alltoall has no algorithm leaders"));
  EXPECT_THAT(message(problem, {.algorithm = Algorithm::two_shot, .variant = Variant::naive}),
              HasSubstr("two_shot has the variant all only"));
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
