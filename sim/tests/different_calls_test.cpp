// Ranks of which one makes another call than the rest, once among many calls of all kinds: eager
// and by slots, with ranks that are late by random times. No rank waits for ever, one at least says
// who differs, and no call succeeds with bytes of a call that differs. Nothing is said where all
// agree.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "coll/fingerprint.hpp"
#include "schedule/test_calls.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"

namespace penstock::sim::different_calls_test {
namespace {

using coll::Collective;
using coll::Communicator;

constexpr std::uint32_t nodes = 3, number = 6;

struct CallWithPlan {
  coll::TestCall call;
  coll::Plan plan;
};

struct Plan : Meeting {
  using Meeting::Meeting;
  std::vector<CallWithPlan> calls;
  CallWithPlan different;
  std::uint32_t differs_in = number;  ///< the call; `number`: none
  std::uint32_t differing_rank = 0;
  bool rest = false;  ///< ranks that have made their calls do not leave
  std::uint32_t ended = 0, named = 0;

  const CallWithPlan& of(std::uint32_t rank, std::uint32_t i) const {
    return i == differs_in && rank == differing_rank ? different : calls[i];
  }
};

class Rank : PlanRank<Plan> {
 public:
  using PlanRank::PlanRank;

  void call_all() {
    if (!await_all_ranks()) return;
    const auto comm = plan_.open(world_, *pool_, self_);
    std::uint32_t done = 0;
    while (done < number && call(*comm, done)) ++done;
    if (done == number && !plan_.rest) comm->leave();
    ++plan_.ended;
    wait_until(world_, "the others",
               [&] { return plan_.ended == comm->ranks() || somebody_died(); });
    const bool differ = plan_.differs_in != number;
    if (!somebody_died()) world_.require((plan_.named != 0) == differ, "nobody says who differs");
  }

 private:
  void be_late() {
    const std::uint64_t kind = world_.random() % 8;
    if (kind == 0) world_.sleep(50'000'000);
    if (kind < 4) world_.sleep(world_.random() % (400 * world_.faults().op_ns + 1));
  }

  bool call(Communicator& comm, std::uint32_t i) {
    be_late();
    const auto& [call, drawn] = plan_.of(self_, i);
    std::vector<coll::Made> made = coll::make_all(call);
    coll::Made& own = made[self_];
    coll::Plan plan = drawn;
    plan.eager = plan.eager && comm.plan(own.problem).eager;
    if (plan.eager) plan = {.eager = true};
    std::vector<std::byte> in = own.input, out = own.output;
    const coll::WordArithmetic arithmetic;
    const auto done = comm.run({.name = name_of(call.collective),
                                .problem = &own.problem,
                                .plan = plan,
                                .input = in.data(),
                                .output = own.problem.in_place ? in.data() : out.data(),
                                .arithmetic = &arithmetic});
    if (!done) return note(done.error(), i);
    const auto wrong = check_result(call, made, self_, own.problem.in_place ? in : out);
    world_.require(wrong.empty(), fmt::format("call {}, {}{}: {}", i, name_of(call.collective),
                                              plan.eager ? ", eager" : "", wrong));
    return true;
  }

  bool note(const Error& error, std::uint32_t i) {
    const bool names = error.code == ErrorCode::mismatch;
    const bool given_up = error.message.find("given the") != std::string::npos;
    const bool death = error.code == ErrorCode::peer_dead && somebody_died();
    world_.require(names || given_up || death, error.message);
    if (names || given_up)
      world_.require(i >= plan_.differs_in, "before any call differed: " + error.message);
    if (names) ++plan_.named;
    return false;
  }
};

CallWithPlan draw(Collective collective, std::uint32_t ranks, std::mt19937_64& random) {
  CallWithPlan drawn{.call = coll::draw_call(collective, ranks, random),
                     .plan = coll::draw_plan(collective, ranks, random)};
  drawn.call.salt = static_cast<std::uint32_t>(random());
  drawn.plan.slot_bytes = small_shape.slot_bytes;
  drawn.plan.eager = random() % 3 == 0;
  return drawn;
}

bool agree(const coll::TestCall& one, const coll::TestCall& other, std::uint32_t rank) {
  const coll::CallFacts a = coll::facts_of(make(one, rank).problem);
  const coll::CallFacts b = coll::facts_of(make(other, rank).problem);
  return a.collective == b.collective && a.root == b.root && a.size == b.size;
}

/// Another root or another size, or another call altogether.
CallWithPlan draw_another(const CallWithPlan& than, std::uint32_t rank, std::mt19937_64& random) {
  const std::uint32_t ranks = than.call.ranks;
  CallWithPlan other = than;
  if (random() % 2 == 0) other.call.root = static_cast<std::uint32_t>(random() % ranks);
  if (random() % 3 == 0) {
    other = draw(than.call.collective, ranks, random);
    other.plan = than.plan;
  }
  while (agree(than.call, other.call, rank))
    other = draw(coll::any_collective(random), ranks, random);
  return other;
}

/// At the end all ranks need all others.
void draw_calls(Plan& plan, bool differ, std::mt19937_64& random) {
  const auto ranks = static_cast<std::uint32_t>(plan.tokens.size());
  for (std::uint32_t i = 0; i + 1 < number; ++i)
    plan.calls.push_back(draw(coll::any_collective(random), ranks, random));
  plan.calls.push_back(draw(Collective::barrier, ranks, random));
  if (!differ) return;
  plan.differs_in = static_cast<std::uint32_t>(random() % (number - 1));
  plan.differing_rank = static_cast<std::uint32_t>(random() % ranks);
  plan.different = draw_another(plan.calls[plan.differs_in], plan.differing_rank, random);
}

/// The last call is a broadcast, in which the last rank names another root than the others.
void let_the_last_broadcast_differ(Plan& plan, std::mt19937_64& random) {
  const auto ranks = static_cast<std::uint32_t>(plan.tokens.size());
  plan.calls.back() = draw(Collective::broadcast, ranks, random);
  coll::TestCall& call = plan.calls.back().call;
  call.root = 0;
  call.bytes.assign(ranks, {coll::test_word * (1 + random() % 200)});
  plan.different = plan.calls.back();
  plan.different.call.root = 1;
  plan.differs_in = number - 1;
  plan.differing_rank = ranks - 1;
  plan.rest = true;
}

Scenario different_calls(const SimulatedPool& pool, std::uint64_t area, std::uint32_t ranks,
                         bool differ, std::uint32_t victim = ~0u) {
  Scenario scenario =
      pool.scenario(fmt::format("{} of {} ranks{}", differ ? "one call differs" : "no call differs",
                                ranks, victim < ranks ? fmt::format(", rank {} dies", victim) : ""),
                    nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, area, ranks, differ, victim](World& world) {
    auto plan = std::make_shared<Plan>(area, ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) plan->node_of.push_back(rank % nodes);
    std::mt19937_64 random(world.random());
    draw_calls(*plan, differ, random);
    spawn_ranks<Rank>(world, pool, plan, nodes, victim);
  };
  return scenario;
}

TEST(DifferentCalls, AreNamedAndGiveNobodyOthersBytes) {
  for (const std::uint32_t ranks : {3u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks);
    const Scenario scenario = different_calls(pool, area, ranks, true);
    expect_held("collectives", "random schedules", explore(scenario, 100));
    expect_held("collectives", "random schedules", explore(with_lasting_copies(scenario), 60));
  }
}

/// The one that differs waits for a rank that has only read, and makes no other call.
TEST(DifferentCalls, AreNamedWhileTheOthersAreAtRest) {
  for (const std::uint32_t ranks : {3u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks);
    Scenario scenario =
        pool.scenario(fmt::format("the last call of {} ranks differs", ranks), nodes);
    scenario.max_steps = 6'000'000;
    scenario.body = [&pool, area, ranks](World& world) {
      auto plan = std::make_shared<Plan>(area, ranks);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) plan->node_of.push_back(rank % nodes);
      std::mt19937_64 random(world.random());
      draw_calls(*plan, false, random);
      let_the_last_broadcast_differ(*plan, random);
      spawn_ranks<Rank>(world, pool, plan, nodes, ~0u);
    };
    expect_held("collectives", "random schedules", explore(scenario, 40));
    expect_held("collectives", "random schedules", explore(with_lasting_copies(scenario), 30));
  }
}

TEST(DifferentCalls, AreNotSeenWhereAllAgree) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 4);
  const Scenario scenario = different_calls(pool, area, 4, false);
  expect_held("collectives", "random schedules", explore(scenario, 60));
  expect_held("collectives", "random schedules", explore(with_lasting_copies(scenario), 40));
}

/// Whether the one that differs dies or another.
TEST(DifferentCalls, KeepNobodyWaitingWhenARankDiesToo) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  for (const std::uint32_t victim : {0u, 2u})
    expect_held("collectives", "crash points",
                crash_everywhere(different_calls(pool, area, 3, true, victim), 80));
}

}  // namespace
}  // namespace penstock::sim::different_calls_test
