// Communicators whose words a stranger overwrites: whoever waits restores its own, and no call
// waits for ever. And ranks that die while they leave: the owner of the space is told.
#include <gtest/gtest.h>

#include "coll/layout.hpp"
#include "coll/test_calls.hpp"
#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"

namespace penstock::sim {
namespace {

using coll::Collective;
using coll::Communicator;

constexpr std::uint32_t ranks = 3;

struct Case {
  explicit Case(std::uint64_t area) : meeting(area, ranks) {}
  Meeting meeting;
  bool check = false;
  std::vector<coll::TestCall> calls;
  std::vector<coll::Plan> plans;
  bool left[ranks] = {};
  bool vandal_done = false;
};

void call_all(World& world, Communicator& comm, const Case& all) {
  for (std::size_t i = 0; i < all.calls.size(); ++i) {
    const coll::TestCall& call = all.calls[i];
    std::vector<coll::Made> made;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) made.push_back(make(call, rank));
    coll::Made& own = made[comm.self()];
    std::vector<std::byte> in = own.input, out = own.output;
    coll::Plan plan = all.plans[i];
    plan.eager = plan.eager && comm.plan(own.problem).eager;
    const coll::WordArithmetic arithmetic;
    const auto done = comm.run({.name = name_of(call.collective),
                                .problem = &own.problem,
                                .plan = plan,
                                .input = in.data(),
                                .output = own.problem.in_place ? in.data() : out.data(),
                                .arithmetic = &arithmetic});
    world.require(done.has_value(), done ? "" : done.error().message);
    const auto wrong = check_result(call, made, comm.self(), own.problem.in_place ? in : out);
    world.require(wrong.empty(), fmt::format("call {}: {}", i, wrong));
  }
}

/// What rank 0 says.
bool goes_on(World& world, Communicator& comm, bool wanted) {
  std::byte flag{wanted};
  coll::Problem problem{.collective = Collective::broadcast,
                        .ranks = ranks,
                        .rank = comm.self(),
                        .max_block_bytes = 1};
  (comm.self() == 0 ? problem.input : problem.output) = {{0, 1}};
  const auto done = comm.run({.problem = &problem,
                              .plan = {.slot_bytes = small_shape.slot_bytes},
                              .input = &flag,
                              .output = &flag});
  world.require(done.has_value(), done ? "" : done.error().message);
  return flag != std::byte{};
}

/// Calls until the vandal is done: what it does later to one who is not in a call stays.
void use(World& world, const SimulatedPool& simulated, Case& all, std::uint32_t self) {
  const auto pool = all.meeting.attach(world, simulated, self);
  wait_until(world, "the ranks", [&] { return all.meeting.all_came(); });
  const auto comm = all.meeting.open(world, *pool, self, all.check);
  do call_all(world, *comm, all);
  while (goes_on(world, *comm, !all.vandal_done));
  comm->leave();
  if (self != 0) return;
  const auto left = comm->await_all_left("the end");
  world.require(left.has_value(), left ? "" : left.error().message);
}

/// A word of a rank's line, but that of its failure; or a release.
std::uint64_t somewhere(World& world) {
  const coll::Layout layout(ranks, small_shape);
  const std::uint64_t rank = world.random() % ranks;
  if (world.random() % 3 == 0) return layout.release(rank, world.random() % ranks);
  return layout.line(rank) + world.random() % coll::failed_word * 8;
}

/// Nothing greater than what lay there: that would be data nobody sent.
void overwrite(World& world, const SimulatedPool& simulated, Case& all, int times) {
  const auto pool = simulated.attach(world, {.observer = true});
  wait_until(world, "the ranks", [&] { return all.meeting.all_came(); });
  for (; times > 0; --times) {
    world.sleep(world.random() % 3'000'000);
    pool->memory().publish_word(pool->base() + all.meeting.area + somewhere(world), 0);
    pool->memory().store_fence();
  }
  all.vandal_done = true;
}

TEST(CommunicatorsOverwritten, WhoWaitsRestoresItsWords) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, ranks);
  Scenario scenario = pool.scenario("collectives whose words are overwritten", ranks + 1);
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool, area](World& world) {
    auto all = std::make_shared<Case>(area);
    std::mt19937_64 random(world.random());
    all->check = random() % 3 == 0;
    for (int i = 0; i < 6; ++i) {
      all->calls.push_back(coll::draw_call(static_cast<Collective>(random() % 11), ranks, random));
      all->plans.push_back({.slot_bytes = small_shape.slot_bytes, .eager = random() % 3 == 0});
    }
    for (std::uint32_t self = 0; self < ranks; ++self)
      world.spawn(self, [&world, &pool, all, self] { use(world, pool, *all, self); });
    world.spawn(ranks, [&world, &pool, all] { overwrite(world, pool, *all, 12); });
  };
  expect_held("collectives", "random schedules", explore(scenario, 40));
}

/// Rank 1 dies somewhere in leave(), or just before or after.
TEST(Communicators, AreGivenBackOrToldOfADeathWhereOneDiesAsItLeaves) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, ranks);
  Scenario scenario = pool.scenario("a rank dies as it leaves a communicator", ranks);
  scenario.body = [&pool, area](World& world) {
    auto all = std::make_shared<Case>(area);
    for (std::uint32_t self = 0; self < ranks; ++self) {
      Process& process = world.spawn(self, [&world, &pool, all, self] {
        const auto attached = all->meeting.attach(world, pool, self);
        const auto died = [&] { return world.victim()->dead; };
        wait_until(world, "the ranks", [&] { return all->meeting.all_came() || died(); });
        if (!all->meeting.all_came()) return;
        const auto comm = all->meeting.open(world, *attached, self);
        comm->leave();
        all->left[self] = true;
        if (self != 0) return;
        const auto left = comm->await_all_left("the end");
        if (left) world.require(all->left[2], "rank 2 has not left");
        if (!left)
          world.require(left.error().code == ErrorCode::peer_dead && died() &&
                            left.error().message.find("rank 1 (pid") != std::string::npos,
                        left.error().message);
      });
      if (self == 1) world.mark_victim(process);
    }
  };
  expect_held("collectives", "crash points", crash_everywhere(scenario, 60));
}

}  // namespace
}  // namespace penstock::sim
