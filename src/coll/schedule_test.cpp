// Every collective by each algorithm, with 1 to 9 ranks and sizes that are odd, uneven or zero,
// compared with the results that MPI defines. Steps run in list order, and with both lanes side by
// side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/seed_in_tests.hpp"
#include "coll/direct_program.hpp"
#include "coll/fused_program.hpp"
#include "coll/problem.hpp"
#include "coll/test_calls.hpp"
#include "coll/test_model.hpp"
#include "coll/together.hpp"

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

Schedule schedule_of(Collective collective, std::uint32_t ranks, std::uint32_t rank,
                     std::uint64_t bytes, const Plan& plan, const NodeMap& nodes = {}) {
  TestCall w{collective, ranks, 0, false, true, {}};
  w.bytes.assign(ranks, std::vector<std::uint64_t>(ranks, bytes));
  const Made made = make(w, rank);
  auto schedule = build(made.problem, plan, nodes);
  EXPECT_TRUE(schedule) << (schedule ? "" : schedule.error().message);
  return *std::move(schedule);
}

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

/// Words of a round are published in any order. A reader that knows that a call is finished no
/// longer checks whether its writer is alive, so that word needs a later round.
TEST(FusedPrograms, PublishFinishedAfterDoorbells) {
  using Kind = DirectOp::Kind;
  constexpr std::uint32_t ranks = 3;
  const Layout layout(ranks, {.direct = true});
  for (const Collective collective : {Collective::broadcast, Collective::allreduce}) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Schedule schedule = schedule_of(collective, ranks, rank, 3000, {.slot_bytes = 1 << 16});
      bool rung = false, finished = false;
      for (const FusedRound& round :
           fused_program_of(direct_program_of(schedule, layout, ranks, rank), schedule)) {
        const auto signals = [&](Kind kind) {
          return std::any_of(round.signals.begin(), round.signals.end(),
                             [kind](const DirectOp& op) { return op.kind == kind; });
        };
        EXPECT_FALSE(signals(Kind::signal) && signals(Kind::finish));
        EXPECT_FALSE(finished && signals(Kind::signal));
        rung = rung || signals(Kind::signal);
        finished = finished || signals(Kind::finish);
      }
      EXPECT_EQ(rung, collective == Collective::allreduce || rank == 0);
      EXPECT_TRUE(finished) << name_of(collective) << " of rank " << rank;
    }
  }
}

/// By event of a lane program: the round of its gate, move or mark.
std::vector<std::size_t> rounds_of(const LaneProgram& program,
                                   const std::vector<FusedRound>& rounds) {
  std::vector<std::size_t> found(program.events.size(), rounds.size());
  for (std::size_t e = 0; e < program.events.size(); ++e) {
    const Event& event = program.events[e];
    const auto is_its_word = [&](const DirectOp& op) {
      return op.lane == event.lane && op.low == event.number + 1u;
    };
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      const FusedRound& round = rounds[r];
      const auto& words = event.kind == Event::Kind::gate ? round.waits : round.signals;
      const bool here =
          event.kind == Event::Kind::move
              ? std::any_of(round.moves.begin(), round.moves.end(),
                            [&](const FusedMove& move) { return move.step == event.number; })
              : std::any_of(words.begin(), words.end(), is_its_word);
      if (here) found[e] = r;
    }
  }
  return found;
}

/// A mark is set behind all that the list has before it, and nothing that the list has behind a
/// mark comes before it.
TEST(FusedPrograms, KeepTheOrderOfLanes) {
  std::mt19937_64 random(base::seed_in_tests());
  for (int draw = 0; draw < 400; ++draw) {
    const auto collective = static_cast<Collective>(random() % collective_count);
    const auto ranks = static_cast<std::uint32_t>(1 + random() % 5);
    const TestCall call = draw_call(collective, ranks, random);
    Plan plan = draw_plan(collective, ranks, random);
    if (plan.algorithm >= Algorithm::two_level) plan.algorithm = Algorithm::one_shot;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto schedule = build(make(call, rank).problem, plan);
      if (!schedule) continue;
      const LaneProgram program = lane_program_of(*schedule);
      const auto rounds = fused_program_of(program, *schedule);
      const auto at = rounds_of(program, rounds);
      for (std::size_t b = 0; b < at.size(); ++b) {
        ASSERT_LT(at[b], rounds.size());
        for (std::size_t a = 0; a < b; ++a) {
          if (program.events[b].kind == Event::Kind::mark) {
            EXPECT_LE(at[a], at[b]);
          }
          if (program.events[a].kind == Event::Kind::mark &&
              program.events[b].kind != Event::Kind::mark) {
            EXPECT_LT(at[a], at[b]);
          }
        }
      }
      const auto& last = rounds.back().waits;
      const bool waits_at_end = !last.empty() && last.back().lane == Lane::read &&
                                last.back().low == program.of(Lane::read).size() + 1;
      EXPECT_NE(waits_at_end, program.ends_quietly);
    }
  }
}

/// A rank that others still wait for behind its last gate is not done when it has passed it.
TEST(LanePrograms, EndQuietlyUnlessReadersRelease) {
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    TestCall w{Collective::allgather, 3, 0, false, true, {}};
    w.bytes.assign(3, std::vector<std::uint64_t>(3, 400));
    const auto ends_quietly = [&] {
      return lane_program_of(*build(make(w, rank).problem, {.slot_bytes = 64})).ends_quietly;
    };
    EXPECT_TRUE(ends_quietly());
    w.known = false;
    EXPECT_FALSE(ends_quietly());
  }
  const NodeMap nodes({0, 0, 1, 1});
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    TestCall w{Collective::allgather, 4, 0, false, true, {}};
    w.bytes.assign(4, std::vector<std::uint64_t>(4, 400));
    const auto schedule = build(make(w, rank).problem, {.algorithm = Algorithm::two_level}, nodes);
    const LaneProgram program = lane_program_of(*schedule);
    std::size_t last_gate = 0, last_ring = 0;
    for (std::size_t i = 0; i < program.events.size(); ++i) {
      const Event& event = program.events[i];
      if (event.kind == Event::Kind::gate && event.lane == Lane::read) last_gate = i;
      if (event.kind == Event::Kind::mark && event.lane == Lane::write) last_ring = i;
    }
    EXPECT_EQ(program.ends_quietly, last_ring < last_gate) << "rank " << rank;
  }
}

}  // namespace
}  // namespace penstock::coll
