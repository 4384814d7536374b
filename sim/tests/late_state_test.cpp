// The state of a slot is stored late, by a process that was stopped just before the store and
// declared dead meanwhile: the store kills no process, and gives no token to two.
#include <gtest/gtest.h>

#include <memory>

#include "pool/checksummed_line.hpp"
#include "pool/layout.hpp"
#include "sim/tests/attachments.hpp"
#include "sim/tests/expect_held.hpp"

namespace penstock::sim::late_state_test {
namespace {

std::uint64_t place_of_state(const pool::Pool& pool, std::uint32_t slot) {
  return reinterpret_cast<const device::Superblock*>(pool.base())->states_offset +
         sizeof(pool::StateLine) * slot;
}
pool::StateLine state_of(World& world, const pool::Pool& pool, std::uint32_t slot) {
  return *pool::observe_checksummed_line<pool::StateLine>(world.memory(), world.base(),
                                                          place_of_state(pool, slot));
}
void store(World& world, const pool::Pool& pool, std::uint32_t slot, const pool::StateLine& line) {
  pool::publish_checksummed_line(world.memory(), world.base(), place_of_state(pool, slot), line);
  world.memory().full_fence();
}

struct Late {
  std::uint32_t slot = 0;
  pool::StateLine line{};
  bool has_left = false, has_owner = false, stored = false, asked = false, over = false;
  std::uint64_t owners_token = 0, nexts_token = 0;
  Process *owner = nullptr, *next = nullptr;
};

void leave_late(World& world, const SimulatedPool& simulated, Late& late) {
  auto leaves = simulated.attach(world);
  const auto mate = simulated.attach(world);
  late.slot = leaves->slot();
  leaves.reset();
  late.line = state_of(world, *mate, late.slot);
  late.has_left = true;
  world.until([&] { return late.has_owner; });
  store(world, *mate, late.slot, late.line);
  late.stored = true;
  world.until([&] { return late.asked || gone(*late.next); });
  world.sleep(3 * simulated.lease_ns(world));
  world.require(gone(*late.owner) || gone(*late.next) || late.owners_token != late.nexts_token,
                "two living processes have the same slot and token");
  late.over = true;
}

/// It leaves, and its slot's next owner holds the slot when the store arrives. Another process then
/// finds the slot free.
TEST(LateState, LateStateGivesNoTokenTwice) {
  const SimulatedPool simulated({.max_processes = 8, .max_nodes = 3});
  Scenario scenario = simulated.scenario("slot, left late", 3);
  scenario.swarm = false;
  scenario.max_steps = 50'000'000;
  scenario.body = [&simulated](World& world) {
    auto late = std::make_shared<Late>();
    world.spawn(0, [=, &world, &simulated] { leave_late(world, simulated, *late); });
    late->owner = &world.spawn(1, [=, &world, &simulated] {
      world.until([=] { return late->has_left; });
      Attachments all;
      take_all_slots(world, simulated, all);
      for (const auto& pool : all)
        if (pool->slot() == late->slot) late->owners_token = pool->token();
      world.require(late->owners_token != 0, "the next owner did not get the slot");
      late->has_owner = true;
      world.until([=] { return late->over; });
    });
    late->next = &world.spawn(2, [=, &world, &simulated] {
      world.until([=] { return late->stored; });
      const auto taken = try_to_attach(world, simulated);
      if (taken) late->nexts_token = (*taken)->token();
      late->asked = true;
      world.until([=] { return late->over; });
    });
    late->owner->may_exit = late->next->may_exit = true;
  };
  expect_held("pool", "random schedules", explore(scenario, 3));
}

/// It has attached on node 0; the owner, on node 1, took the slot under the same generation.
Scenario attached_late(const SimulatedPool& simulated, std::uint32_t asker) {
  Scenario scenario =
      simulated.scenario(fmt::format("slot, attached late, node {} asks", asker), 3);
  scenario.swarm = false;
  scenario.body = [&simulated, asker](World& world) {
    auto late = std::make_shared<Late>();
    world.spawn(0, [=, &world, &simulated] {
      const auto mate = simulated.attach(world);
      late->line = state_of(world, *mate, mate->slot());
      late->has_left = true;
    });
    world.spawn(1, [=, &world, &simulated] {
      world.until([=] { return late->has_left; });
      const auto owner = simulated.attach(world);
      late->slot = owner->slot();
      late->owners_token = owner->token();
      world.until([=] { return late->asked; });
    });
    world.spawn(asker, [=, &world, &simulated] {
      world.until([=] { return late->owners_token != 0; });
      const auto pool = simulated.attach(world);
      world.require(pool->alive(late->owners_token), "the owner lives");
      late->line.generation = state_of(world, *pool, late->slot).generation;
      store(world, *pool, late->slot, late->line);
      const bool alive = pool->alive(late->owners_token);
      late->asked = true;
      world.require(alive, "a living process is taken for dead");
    });
  };
  return scenario;
}

TEST(LateState, OfOneThatHasAttachedMakesNobodyDead) {
  const SimulatedPool simulated({.max_processes = 8, .max_nodes = 3});
  for (const std::uint32_t asker : {1u, 2u})
    expect_held("pool", "random schedules", explore(attached_late(simulated, asker), 3));
}

}  // namespace
}  // namespace penstock::sim::late_state_test
