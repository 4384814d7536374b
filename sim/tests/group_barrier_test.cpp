// The barrier of a group on memory without coherence, in its forms for few ranks and for many: no
// rank passes early, earlier publishes are found after it, and a death ends the waits of all.
#include "group/barrier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim::group_barrier_test {
namespace {

constexpr std::uint32_t nobody = ~std::uint32_t{0};

/// The node of each rank.
using Places = std::vector<std::uint32_t>;

struct Meeting {
  std::uint64_t lines = 0;  ///< of the barrier; those of the data lie behind them
  Places node_of;
  group::BarrierForm form;
  std::uint64_t rounds = 3;
  std::uint32_t victim = nobody;
  std::uint64_t late_ns = 0;  ///< delay of rank 0 after all others
};

/// Lines that all threads of the running process have requested from the device.
std::uint64_t reads_of_self(World& world) {
  std::uint64_t reads = 0;
  for (const auto& thread : world.self().threads) reads += thread->core->device_reads();
  return reads;
}

/// While rank 0 keeps all others waiting.
void require_few_reads(World& world, std::uint64_t reads, std::uint64_t waited_ns) {
  constexpr std::uint64_t a_second = 10'000, at_first = 1'000;
  const std::uint64_t allowed = at_first + a_second * waited_ns / 1'000'000'000;
  world.require(reads <= allowed,
                fmt::format("read {} lines in {} ms of waiting", reads, waited_ns / 1'000'000));
}

struct Plan : Meeting {
  std::vector<std::uint64_t> tokens;
  std::uint32_t attached = 0;
};

bool somebody_died(World& world) {
  return world.victim() != nullptr && world.victim()->dead;
}

/// The error of a failed barrier names a rank that died, or one that left because of that.
void require_a_death(World& world, const std::string& text) {
  const bool named =
      std::any_of(world.processes().begin(), world.processes().end(), [&](const auto& process) {
        const std::string name = fmt::format("rank {} (pid", process->number);
        return process->dead && text.find(name) != std::string::npos;
      });
  world.require(somebody_died(world) && (named || text.ends_with(" left")), text);
}

void meet(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self) {
  const auto ranks = static_cast<std::uint32_t>(plan.node_of.size());
  const auto pool =
      simulated.attach(world, {.rank = static_cast<std::int32_t>(self), .job = "sim"});
  plan.tokens[self] = pool->token();
  ++plan.attached;
  wait_until(world, "the ranks", [&] { return plan.attached == ranks || somebody_died(world); });
  if (plan.attached != ranks) return;
  group::Group group(*pool, {.tokens = plan.tokens, .nodes = {}, .self = self, .idle = {}});
  std::byte* const lines = pool->base() + plan.lines;
  const auto data_of = [&](std::uint32_t rank) { return lines + 64 * (ranks + rank); };
  group::Barrier barrier(
      group, [lines](std::uint32_t rank) { return lines + 64 * rank; }, plan.form);
  for (std::uint64_t round = 1; round <= plan.rounds; ++round) {
    group.memory.publish_word(data_of(self), round);
    if (self == 0) world.sleep(plan.late_ns);
    const std::uint64_t before_ns = world.now_ns(), reads_before = reads_of_self(world);
    if (world.random() % 2 == 0) {
      barrier.arrive();
      barrier.pass_on();
    } else {
      barrier.arrive();
    }
    const auto met = barrier.await_others("a meeting");
    if (!met) return require_a_death(world, met.error().message);
    if (plan.late_ns != 0 && self != 0)
      require_few_reads(world, reads_of_self(world) - reads_before, world.now_ns() - before_ns);
    for (std::uint32_t other = 0; other < ranks; ++other) {
      const std::uint64_t found = group.memory.observe_word(data_of(other));
      world.require(found == round || found == round + 1,
                    fmt::format("round {}: rank {} is at {}", round, other, found));
    }
  }
}

std::uint64_t place_lines(SimulatedPool& pool, std::size_t ranks) {
  std::uint64_t lines = 0;
  pool.format_arena();
  pool.once([&](World& world) {
    const auto attached = pool.attach(world);
    const auto arena = SimulatedPool::open_arena(world, *attached);
    const auto object = arena->create("lines", 64 * 2 * ranks);
    world.require(object.has_value(), object ? "" : object.error().message);
    lines = object->offset;
  });
  return lines;
}

Scenario meetings(const SimulatedPool& pool, const Meeting& meeting) {
  const std::uint32_t nodes = *std::max_element(meeting.node_of.begin(), meeting.node_of.end()) + 1;
  Scenario scenario = pool.scenario(
      fmt::format("barrier of {} ranks on {} nodes, {}{}", meeting.node_of.size(), nodes,
                  meeting.form.flat_up_to > 1 ? "flat" : "a tree",
                  meeting.victim == nobody ? "" : fmt::format(", rank {} dies", meeting.victim)),
      nodes);
  scenario.max_steps = 3'000'000;
  scenario.body = [&pool, meeting](World& world) {
    auto plan = std::make_shared<Plan>(Plan{meeting, {}, 0});
    plan->tokens.resize(meeting.node_of.size());
    for (std::uint32_t self = 0; self < meeting.node_of.size(); ++self) {
      Process& process = world.spawn(
          meeting.node_of[self], [&world, &pool, plan, self] { meet(world, pool, *plan, self); });
      if (self == meeting.victim) world.mark_victim(process);
    }
  };
  return scenario;
}

/// Two levels within a node, one step among leaders; leaders alone in several steps; and both.
const std::vector<Places> all_places = {{0, 0, 0, 0, 1}, {0, 1, 2, 3, 4}, {1, 0, 2, 1, 0, 2}};
constexpr group::BarrierForm tree{.flat_up_to = 1, .fan_in = 2}, flat{};

TEST(GroupBarrier, SeparatesRanksAndPublishesData) {
  for (const Places& places : all_places) {
    SimulatedPool pool({.max_nodes = 8});
    const std::uint64_t lines = place_lines(pool, places.size());
    for (const auto& form : {tree, flat}) {
      const Scenario scenario = meetings(pool, {.lines = lines, .node_of = places, .form = form});
      expect_held("barrier", "random schedules", explore(scenario, 40));
      expect_held("barrier", "random schedules", explore(with_lasting_copies(scenario), 20));
    }
  }
}

TEST(GroupBarrier, ReportsDeathOfAnyRank) {
  for (const Places& places : all_places) {
    SimulatedPool pool({.max_nodes = 8});
    const std::uint64_t lines = place_lines(pool, places.size());
    for (std::uint32_t victim = 0; victim < places.size(); ++victim) {
      expect_held(
          "barrier", "crash points",
          crash_everywhere(
              meetings(
                  pool,
                  {.lines = lines, .node_of = places, .form = tree, .rounds = 2, .victim = victim}),
              20));
    }
  }
}

/// A leader has ended its part when it has released its node: its death then concerns no other
/// rank.
TEST(GroupBarrier, RankMayLeaveAfterForwarding) {
  SimulatedPool pool({.max_nodes = 8});
  const Places places{0, 0, 1, 1};
  const std::uint64_t lines = place_lines(pool, places.size());
  expect_held(
      "barrier", "random schedules",
      explore(meetings(pool, {.lines = lines, .node_of = places, .form = tree, .rounds = 1}), 60));
}

/// However many ranks it waits for, by name or through those that pass on what others do.
TEST(GroupBarrier, WhoWaitsLongReadsLittle) {
  constexpr std::uint32_t ranks = 96, nodes = 8;
  Places places(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) places[rank] = rank / (ranks / nodes);
  SimulatedPool pool({.bytes = 32 << 20, .max_processes = ranks + 1, .max_nodes = nodes});
  const std::uint64_t lines = place_lines(pool, ranks);
  for (const auto& form : {group::BarrierForm{}, group::BarrierForm{.flat_up_to = ranks}}) {
    Scenario scenario = meetings(
        pool,
        {.lines = lines, .node_of = places, .form = form, .rounds = 1, .late_ns = 1'000'000'000});
    scenario.max_steps = 50'000'000;
    scenario.faults.same_speed = true;
    expect_held("barrier", "random schedules", explore(scenario, 1));
  }
}

/// Rank 1 writes its last word and leaves while rank 0 checks the ranks that it waits for: between
/// the look at its line and the check whether it lives.
void meet_while_one_goes(World& world, const SimulatedPool& simulated, Plan& plan,
                         std::uint32_t self, bool& goes) {
  constexpr std::uint32_t waits = 0, leaves = 1, late = 2;
  auto pool = simulated.attach(world, {.rank = static_cast<std::int32_t>(self), .job = "sim"});
  plan.tokens[self] = pool->token();
  ++plan.attached;
  wait_until(world, "the ranks", [&] { return plan.attached == plan.tokens.size(); });
  const Process& leaver = *world.processes()[leaves];
  std::uint32_t looks = 0;
  const auto line_of = [&, lines = pool->base() + plan.lines](std::uint32_t rank) {
    if (self == waits && rank == leaves) ++looks;  // to drop its copy, then to load it
    if (self == waits && rank == late && looks == 2 && !std::exchange(goes, true))
      wait_until(world, "it to go", [&] { return gone(leaver); });
    return lines + 64 * rank;
  };
  {
    group::Group group(*pool, {.tokens = plan.tokens, .nodes = {}, .self = self, .idle = {}});
    group::Barrier barrier(group, line_of, tree);
    if (self == late) wait_until(world, "it to go", [&] { return gone(leaver); });
    if (self == leaves) wait_until(world, "the look", [&] { return goes; });
    barrier.arrive();
    barrier.pass_on();
    const auto met = self == leaves ? Result<void>{} : barrier.await_others("a meeting");
    world.require(met.has_value(), met ? "" : met.error().message);
  }
}

TEST(GroupBarrier, NoticesRankThatLeavesDuringLook) {
  SimulatedPool pool({.max_nodes = 8});
  const Places places{0, 1, 2};
  const std::uint64_t lines = place_lines(pool, places.size());
  Scenario scenario = meetings(pool, {.lines = lines, .node_of = places, .form = tree});
  scenario.body = [&](World& world) {
    auto plan = std::make_shared<Plan>(Plan{{.lines = lines, .node_of = places}, {}, 0});
    auto goes = std::make_shared<bool>(false);
    plan->tokens.resize(places.size());
    for (std::uint32_t self = 0; self < places.size(); ++self)
      world.spawn(places[self], [&world, &pool, plan, goes, self] {
        meet_while_one_goes(world, pool, *plan, self, *goes);
      });
  };
  expect_held("barrier", "random schedules", explore(with_lasting_copies(scenario), 60));
}

}  // namespace
}  // namespace penstock::sim::group_barrier_test
