// Hundreds of processes in one pool.
#include <gtest/gtest.h>

#include <set>

#include "pool/members.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sync/sync.hpp"

namespace penstock::sim {
namespace {

void take_part(World& world, const SimulatedPool& simulated, std::uint32_t count,
               std::set<std::uint64_t>& tokens, std::set<std::uint32_t>& ready) {
  const auto pool = simulated.attach(world);
  world.require(tokens.insert(pool->token()).second, "two processes have the same token");
  const auto arena = simulated.open_arena(world, *pool);
  const auto lines = arena->create("barrier", sync::Barrier::bytes(count), {.open_existing = true});
  world.require(lines.has_value(), lines ? "" : lines.error().message);
  sync::Barrier barrier(pool->memory(), lines->data, count, world.self().number, pool->token(),
                        [&pool](std::uint64_t token) { return pool->alive(token); });
  const auto own = arena->create(fmt::format("of {}", world.self().number), 100,
                                 {.lifetime = arena::Lifetime::process});
  world.require(own.has_value(), own ? "" : own.error().message);
  // Polls of hundreds of processes at hundreds of lines cost more than all else.
  ready.insert(world.self().number);
  wait_until(world, "all to be ready", [&] { return ready.size() == count; });
  const auto passed = barrier.wait();
  world.require(passed.has_value(), passed ? "" : passed.error().message);
  world.require(tokens.size() == count, "the barrier was passed before all had arrived");
  const std::uint32_t next = (world.self().number + 1) % count;
  world.require(arena->open(fmt::format("of {}", next)).has_value(), "a name is missing");
  const auto again = barrier.wait();  // before any process's object is destroyed
  world.require(again.has_value(), again ? "" : again.error().message);
}

void run_with(std::uint32_t count, std::uint32_t nodes) {
  SimulatedPool pool({.bytes = 32 << 20, .max_processes = count + 1, .max_nodes = nodes});
  pool.format_arena();
  Scenario scenario =
      pool.scenario(fmt::format("pool, {} processes on {} nodes", count, nodes), nodes);
  scenario.max_steps = 200'000'000;
  scenario.faults.same_speed = true;
  scenario.body = [&pool, count, nodes](World& world) {
    auto tokens = std::make_shared<std::set<std::uint64_t>>();
    auto ready = std::make_shared<std::set<std::uint32_t>>();
    for (std::uint32_t i = 0; i < count; ++i) {
      world.spawn(i % nodes, [&world, &pool, count, tokens, ready] {
        take_part(world, pool, count, *tokens, *ready);
      });
    }
  };
  scenario.after = [&pool](World& world) {
    const auto attached = pool.attach(world);
    const auto arena = pool.open_arena(world, *attached);
    world.require(arena->list().size() == 1 && arena->stats().objects == 1, "objects are left");
    for (const pool::ProcessRecord& record : attached->members().processes()) {
      world.require(!record.attached || record.slot == attached->slot(), "a slot is not free");
    }
  };
  const RunStatistics statistics = explore(scenario, 1);
  report("pool", "many processes", statistics);
  EXPECT_TRUE(statistics.held()) << statistics.first_failure;
}

TEST(Sizes, Attach129) {
  run_with(129, 8);
}
TEST(Sizes, Attach257) {
  run_with(257, 4);
}
}  // namespace
}  // namespace penstock::sim
