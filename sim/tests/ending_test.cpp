// Ranks that leave a communicator one after the other and detach: its memory belongs to one that
// has not left, and is free as soon as the last one has.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "coll/agreement.hpp"
#include "coll/ending.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/small_pool.hpp"
#include "sim/tests/stops.hpp"

namespace penstock::sim::ending_test {
namespace {

constexpr std::uint32_t ranks = 3;
/// For a communicator and little more, so that its space is soon another's.
constexpr std::uint64_t room_for_one = 160 << 10;

/// Shared by the ranks by other means than the pool.
struct Exchange {
  std::vector<coll::Offer> offers{ranks};
  std::uint32_t offered = 0, opened = 0, done = 0, refused = 0, root = 0;
  bool eager = false, leave_at_once = false;
  bool late_slots = false;  ///< the call takes them, if another job leaves room
  std::optional<std::uint32_t> dies_leaving;
  std::optional<std::uint32_t> gives_up;  ///< gives the call up, perhaps before there are slots
  std::vector<Process*> processes;

  bool has_ended() const {
    return std::all_of(processes.begin(), processes.end(),
                       [](const Process* process) { return gone(*process); });
  }
  /// A rank that gives up, or another that needs it.
  bool may_be_given_up(ErrorCode code) const {
    return gives_up && (code == ErrorCode::deadline || code == ErrorCode::unavailable);
  }
  bool has_lost_one() const {
    return std::any_of(processes.begin(), processes.end(),
                       [](const Process* process) { return process->dead; });
  }
};

/// A root that has sent does not wait for those who read.
void receive(World& world, coll::Communicator& comm, Exchange& exchange) {
  constexpr std::uint64_t bytes = 700;
  std::vector<std::byte> data(bytes, std::byte(comm.self() == exchange.root ? 0x42 : 0));
  coll::Problem problem{.collective = coll::Collective::broadcast,
                        .ranks = ranks,
                        .rank = comm.self(),
                        .root = exchange.root,
                        .max_block_bytes = bytes};
  (comm.self() == exchange.root ? problem.input : problem.output) = {{0, bytes}};
  const auto done =
      comm.run({.name = "broadcast",
                .problem = &problem,
                .plan = {.slot_bytes = comm.shape().slot_bytes, .eager = exchange.eager},
                .input = data.data(),
                .output = data.data(),
                .timeout_ns = comm.self() == exchange.gives_up ? 1'000 : 0ull});
  if (!done && exchange.may_be_given_up(done.error().code)) return;
  if (!done && exchange.late_slots && done.error().code == ErrorCode::no_space) {
    world.require(!exchange.eager && done.error().message.find("are needed") != std::string::npos,
                  done.error().message);
    ++exchange.refused;
    return;
  }
  if (!done) {
    world.require(exchange.has_lost_one() && done.error().code == ErrorCode::peer_dead,
                  done.error().message);
    return;
  }
  world.require(data == std::vector<std::byte>(bytes, std::byte{0x42}), "wrong bytes");
}

void use_and_leave(World& world, const SmallPool& pool, Exchange& exchange, std::uint32_t self) {
  SpaceUser user(world, pool, "a job", static_cast<std::int32_t>(self));
  coll::Agreement agreement(ranks, self);
  const auto made = agreement.offer(coll::space_in(*user.arena, "communicator"),
                                    {.slot_bytes = 256, .late_slots = exchange.late_slots});
  world.require(made.has_value(), made ? "" : made.error().message);
  exchange.offers[self] = agreement.own();
  ++exchange.offered;
  wait_until(world, "the offers",
             [&] { return exchange.offered == ranks || exchange.has_lost_one(); });
  if (exchange.offered != ranks) return agreement.give_back();
  const coll::Options options = agreement.options(*user.pool, exchange.offers);
  const auto comm = coll::Communicator::open(*user.pool, options);
  world.require(comm.has_value(), comm ? "" : comm.error().message);
  const auto areas = agreement.areas(exchange.offers);
  world.require(areas.has_value(), areas ? "" : areas.error().message);
  (void)agreement.take_areas();
  ++exchange.opened;
  wait_until(world, "all to open it",
             [&] { return exchange.opened == ranks || exchange.has_lost_one(); });
  world.sleep(world.random() % 4 * 3'000'000);
  receive(world, **comm, exchange);
  ++exchange.done;
  if (exchange.leave_at_once)
    world.until([&] { return exchange.done == ranks || exchange.has_lost_one(); });
  else
    world.sleep(world.random() % 4 * 3'000'000);
  if (self == exchange.dies_leaving) {
    constexpr std::uint64_t longest = 300;  // operations
    world.self().dies_at = world.self().operations + world.random() % longest;
    world.self().dies_with_node = world.random() % 2 == 0;
  }
  coll::end(*user.arena, **comm, options.tokens, *areas);
  world.sleep(world.random() % 3 * 3'000'000);
}

/// Of another job: takes what space there is, again and again.
void take_space(World& world, const SmallPool& pool, const Exchange& exchange) {
  wait_until(world, "rank 0", [&] {
    return exchange.offers[0].area != coll::Offer::none || gone(*exchange.processes[0]);
  });
  SpaceUser taker(world, pool, "another job");
  const auto use = [&] {
    const auto mine = fill_and_publish(world, taker);
    world.sleep(1'000'000);
    for (const Object& object : mine) {
      taker.require_whole(object, "beside a communicator");
      (void)taker.arena->destroy(object);
    }
  };
  while (!exchange.has_ended()) {
    use();
    world.sleep(500'000);
  }
  if (exchange.has_lost_one()) return;
  world.require(exchange.gives_up || exchange.refused == 0 || exchange.refused == ranks,
                fmt::format("{} ranks found no room for slots", exchange.refused));
  const auto stats = taker.arena->stats();
  world.require(stats.objects == 1 && stats.bytes_quarantined == 0,
                fmt::format("{} objects and {} B in quarantine are left", stats.objects,
                            stats.bytes_quarantined));
  use();
}

/// One of them is stopped at one of its operations, for less than a lease: the others wait for it.
Scenario with_a_stop(const SmallPool& pool, Scenario scenario) {
  scenario.name += ", one is stopped meanwhile";
  scenario.body = [&pool, body = scenario.body](World& world) {
    body(world);
    Process& late = *world.victim();
    constexpr std::uint64_t operations = 3'000;
    stop_within(world, late, operations);
    world.spawn(late.node, [&world, &pool, &late] {
      wait_until(world, "it to be stopped", [&] { return late.stopped || gone(late); });
      world.sleep(pool.lease_ns(world) * 2 / 5);
      late.stopped = false;
    });
  };
  return scenario;
}

enum class Case { any, one_dies_leaving, one_gives_up };

Scenario one_after_the_other(const SmallPool& pool, Case wanted = Case::any) {
  Scenario scenario = pool.scenario("ranks leave a communicator one after the other", nodes);
  scenario.max_steps = 8'000'000;
  scenario.body = [&pool, wanted](World& world) {
    auto exchange = std::make_shared<Exchange>();
    exchange->root = static_cast<std::uint32_t>(world.random() % ranks);
    const bool gives_up = wanted == Case::one_gives_up;  // a call that takes slots
    exchange->eager = !gives_up && world.random() % 2 == 0;
    exchange->leave_at_once = world.random() % 2 == 0;
    exchange->late_slots = gives_up || world.random() % 2 == 0;
    if (gives_up || (exchange->late_slots && world.random() % 3 == 0))
      exchange->gives_up = 1 + static_cast<std::uint32_t>(world.random() % (ranks - 1));
    const auto victim = static_cast<std::uint32_t>(world.random() % ranks);
    if (wanted == Case::one_dies_leaving) exchange->dies_leaving = victim;
    for (std::uint32_t self = 0; self < ranks; ++self) {
      Process& process = world.spawn(self % nodes, [&world, &pool, exchange, self] {
        use_and_leave(world, pool, *exchange, self);
      });
      exchange->processes.push_back(&process);
      if (self == victim) world.mark_victim(process);
    }
    world.spawn(static_cast<std::uint32_t>(world.random() % nodes),
                [&world, &pool, exchange] { take_space(world, pool, *exchange); });
  };
  scenario.after = [&pool](World& world) { require_all_back(world, pool); };
  return scenario;
}

TEST(MemoryOfCommunicators, IsFreeOnceTheLastRankHasLeft) {
  const SmallPool pool(room_for_one);
  const Scenario scenario = one_after_the_other(pool);
  expect_held("collectives", "random schedules", explore(scenario, 60));
  expect_held("collectives", "random schedules", explore(with_lasting_copies(scenario), 30));
}

TEST(MemoryOfCommunicators, SurvivesAStoppedRank) {
  const SmallPool pool(room_for_one);
  expect_held("collectives", "random schedules",
              explore(with_a_stop(pool, one_after_the_other(pool)), 40));
}

TEST(MemoryOfCommunicators, IsFreedByARankThatGaveUp) {
  const SmallPool pool(room_for_one);
  // Copies that come unasked stay until they are dropped.
  Scenario scenario = with_lasting_copies(one_after_the_other(pool, Case::one_gives_up));
  scenario.faults.prefetch = 300;
  expect_held("collectives", "random schedules", explore(scenario, 60));
}

TEST(MemoryOfCommunicators, ComesBackWhereARankDiesLeaving) {
  const SmallPool pool(room_for_one);
  expect_held("collectives", "crash points", crash_everywhere(one_after_the_other(pool), 60));
  expect_held("collectives", "random schedules",
              explore(one_after_the_other(pool, Case::one_dies_leaving), 100));
}

}  // namespace
}  // namespace penstock::sim::ending_test
