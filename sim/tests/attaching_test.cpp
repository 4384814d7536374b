// The cost of attaching, counted, when many processes attach on many nodes at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "pool/layout.hpp"
#include "pool/reclaim.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

struct Cost {
  std::uint64_t greatest_apart = 0;  ///< most lines read by an attachment that did not take the
                                     ///< pool's lock
  std::uint64_t under_lock = 0;      ///< attachments that took the pool's lock
  std::uint64_t attached = 0;
};

/// They attach one after another on their node, and stay until all have come.
void attach_all(World& world, const SimulatedPool& simulated, std::uint32_t count, Cost& cost) {
  std::vector<std::unique_ptr<pool::Pool>> here;
  const std::uint32_t node = world.self().node;
  for (std::uint32_t i = 0; i < count; ++i) {
    pool::Caller caller{world.host(node), world.identity(world.self())};
    caller.process.pid = 2'000'000'000 - node * 1000 - i;
    const std::uint64_t before = world.running().core->device_reads();
    here.push_back(simulated.attach(world, caller));
    const std::uint64_t reads = world.running().core->device_reads() - before;
    const std::uint32_t block =
        pool::block_slots_of(here.back()->info().max_processes, here.back()->info().max_nodes);
    const bool first_of_block = here.back()->slot() % block == 0;
    cost.under_lock += first_of_block ? 1 : 0;
    if (!first_of_block) cost.greatest_apart = std::max(cost.greatest_apart, reads);
    ++cost.attached;
  }
  wait_until(world, "all to attach",
             [&] { return cost.attached == count * world.processes().size(); });
}

/// `slots`: those of the pool, for `processes` on `nodes`.
void run_with(std::uint32_t processes, std::uint32_t nodes, std::uint32_t slots) {
  const SimulatedPool pool(
      {.bytes = 64 << 20, .max_processes = slots, .max_nodes = nodes, .lease_ms = 3'600'000});
  Scenario scenario =
      pool.scenario(fmt::format("pool, {} attach on {} nodes", processes, nodes), nodes);
  scenario.max_steps = 400'000'000;
  scenario.max_seconds = 1200;
  scenario.swarm = false;
  scenario.faults.same_speed = true;
  auto cost = std::make_shared<Cost>();
  scenario.body = [&pool, processes, nodes, cost](World& world) {
    *cost = {};
    for (std::uint32_t node = 0; node < nodes; ++node)
      world.spawn(node, [&world, &pool, processes, nodes, cost] {
        attach_all(world, pool, processes / nodes, *cost);
        if (world.self().number != 0) return;
        const std::uint32_t block =
            pool::block_slots_of(pool::inspect(pool.path())->max_processes, nodes);
        // From the pool's table: an attachment without the lock reads as many lines as a block has
        // slots. A heartbeat that was delayed by others' turns reads its verdict again.
        world.require(cost->greatest_apart <= 24 + block,
                      fmt::format("{} lines were read to attach", cost->greatest_apart));
        // Each node takes the lock as often as it has blocks.
        world.require(cost->under_lock <= (processes / nodes + block - 1) / block * nodes,
                      fmt::format("{} took the lock", cost->under_lock));
        fmt::print(
            "{} processes on {} nodes: {} took the pool's lock; the others read {} lines at most\n",
            processes, nodes, cost->under_lock, cost->greatest_apart);
        std::fflush(stdout);  // the run is a process of its own
      });
  };
  const RunStatistics statistics = explore(scenario, 3);
  report("pool", "many attach", statistics);
  EXPECT_TRUE(statistics.held()) << statistics.first_failure;
}

TEST(Attaching, CostsTheSameHoweverManyTheyAre) {
  run_with(64, 1, 1024);
  run_with(64, 4, 1024);
  run_with(512, 4, 1024);
  run_with(1024, 16, 2048);
}

/// Attached, each under its own name, for as long as they are held.
std::vector<std::unique_ptr<pool::Pool>> attach_some(World& world, const SimulatedPool& simulated,
                                                     std::uint32_t count) {
  std::vector<std::unique_ptr<pool::Pool>> here;
  for (std::uint32_t i = 0; i < count; ++i) {
    pool::Caller caller{world.host(world.self().node), world.identity(world.self())};
    caller.process.pid = 2'000'000'000 - world.self().number * 1000 - i;
    here.push_back(simulated.attach(world, caller));
  }
  return here;
}

struct Reaped {
  std::uint64_t lines = 0;
  std::uint32_t dead = 0;
};
Reaped reap(World& world, pool::Pool& attached, pool::Reclaim::Among among) {
  const std::uint64_t before = world.running().core->device_reads();
  const auto dead = attached.reclaim().reap({}, among);
  world.require(dead.has_value(), dead ? "" : dead.error().message);
  return {world.running().core->device_reads() - before, *dead};
}

/// One process of a node dies; one of another node leaves memory to which its job's peers may
/// store.
void look_around(World& world, const SimulatedPool& pool, const int& away, Process& mate) {
  using Among = pool::Reclaim::Among;
  wait_until(world, "the others", [&] { return away == 2; });
  const auto attached = pool.attach(world);
  const Reaped nobody = reap(world, *attached, Among::near);
  world.require(nobody.dead == 0, "a living process of this node was found dead");
  world.require(nobody.lines <= 80, fmt::format("{} lines were read", nobody.lines));
  world.kill(mate);
  world.require(reap(world, *attached, Among::near).dead == 1,
                "the dead process of this node was not found");
  const Reaped all = reap(world, *attached, Among::all);
  world.require(all.dead == 1, "the process that left was not found among all");
  world.require(all.lines > 300, fmt::format("{} lines of all were read", all.lines));
}

/// A process that attaches reads no lines of other nodes' processes, unless it is the first of its
/// node.
Scenario deaths_near(const SimulatedPool& pool, bool first_comes) {
  Scenario scenario = pool.scenario("pool, the dead of a node", 4);
  scenario.swarm = false;
  scenario.body = [&pool, first_comes](World& world) {
    auto away = std::make_shared<int>(0);
    auto end = std::make_shared<bool>(false);
    for (const std::uint32_t node : {1u, 2u})
      world.spawn(node, [&world, &pool, away, end] {
        const auto stay = attach_some(world, pool, 100);
        auto leaver = pool.attach(world, {.job = "leaves"});
        if (world.self().node == 1) leaver->reclaim().defer();
        leaver.reset();
        ++*away;
        wait_until(world, "the end", [&] { return *end; });
      });
    auto stands = std::make_shared<bool>(false);
    Process& mate = world.spawn(0, [&world, &pool, stands] {
      const auto attached = pool.attach(world);
      *stands = true;
      world.sleep(~0ull / 4);  // for ever
    });
    world.spawn(0, [&world, &pool, away, end, stands, &mate, first_comes] {
      wait_until(world, "the mate", [&] { return *stands; });
      const auto stays = pool.attach(world);
      if (!first_comes) look_around(world, pool, *away, mate);
      if (first_comes) wait_until(world, "the first", [&] { return *end; });
      world.kill(mate);
      *end = true;
    });
    if (!first_comes) return;
    world.spawn(3, [&world, &pool, away, end] {
      wait_until(world, "the others", [&] { return *away == 2; });
      const auto first = pool.attach(world);
      const Reaped left = reap(world, *first, pool::Reclaim::Among::near);
      world.require(left.dead == 1,
                    "the first process of a node did not find the one that left elsewhere");
      *end = true;
    });
  };
  return scenario;
}

TEST(Attaching, LooksForTheDeadOfItsNode) {
  const SimulatedPool pool({.bytes = 64 << 20, .max_processes = 1024, .max_nodes = 4});
  for (const bool first_comes : {false, true}) {
    const RunStatistics statistics = explore(deaths_near(pool, first_comes), 5);
    report("pool", "the dead of a node", statistics);
    EXPECT_TRUE(statistics.held()) << statistics.first_failure;
  }
}

/// Not among the tests that always run: it takes a minute.
TEST(Attaching, DISABLED_LongOfThousandsOnManyNodes) {
  run_with(1024, 128, 16384);
  run_with(8192, 16, 16384);
  run_with(8192, 128, 16384);
}

}  // namespace
}  // namespace penstock::sim
