// Programs for streams and launches, made of schedules.
#include "coll/fused_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/seed_in_tests.hpp"
#include "coll/direct_program.hpp"
#include "schedule/test_calls.hpp"

namespace penstock::coll {
namespace {

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
