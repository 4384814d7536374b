// Numbers of nodes that go from host to host: what the processes of the earlier host do late, and
// what they left in its caches, must not harm the next one.
#include <gtest/gtest.h>

#include "pool/attaching.hpp"
#include "pool/superblock.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

/// Host 1 stays. Host 0 comes, and something happens to it while it attaches. Host 2 gets its
/// number, and takes turns with host 1.
struct Story {
  Process* holder = nullptr;  ///< of the pool's lock
  std::map<std::uint32_t, Process*> slots;
  std::map<std::uint32_t, std::uint32_t> numbers;  ///< by host
  bool first_is_there = false, over = false;
  bool busy = false;  ///< host 1 takes turns without a rest
  int turns = 0;      ///< of host 2
};

using Attached = std::unique_ptr<pool::Pool>;

/// Null: there is no room, as long as the dead have not ended for certain.
Attached try_to_attach(World& world, const SimulatedPool& simulated) {
  ::setenv("PENSTOCK_LEASE_MS", std::to_string(simulated.lease_ns(world) / 1'000'000).c_str(), 1);
  auto attached = pool::attach_as({.spec = simulated.path()},
                                  {world.host(world.self().node), world.identity(world.self())});
  world.require(attached || attached.error().code == ErrorCode::no_slots,
                attached ? "" : attached.error().message);
  return attached ? std::move(*attached) : nullptr;
}

/// Attached for a while, with the lock for a part of it.
void take_a_turn(World& world, pool::Pool& pool, Story& story) {
  Process& self = world.self();
  const auto whose = story.slots.find(pool.slot());
  world.require(whose == story.slots.end() || gone(*whose->second) || whose->second == &self,
                "two have one slot");
  story.slots[pool.slot()] = &self;
  story.numbers[self.node] = pool.node();
  world.require(story.numbers.count(1) == 0 || story.numbers.count(2) == 0 ||
                    story.numbers[1] != story.numbers[2],
                "two hosts have one number");
  for (int times = 0; times < 2; ++times) {
    const auto guard = pool.lock();
    world.require(guard.has_value(), guard ? "" : guard.error().message);
    world.require(story.holder == nullptr, "two hold the lock");
    story.holder = &self;
    for (int looks = 0; looks < 60; ++looks) (void)pool.memory().observe_word(pool.base());
    world.require(story.holder == &self, "two hold the lock");
    story.holder = nullptr;
  }
  story.slots.erase(pool.slot());
}

/// `happens`: what happens to host 0.
Scenario one_after_another(const SimulatedPool& pool, const std::string& name,
                           const std::function<void(World&, Process&, Story&)>& happens) {
  Scenario scenario = pool.scenario("pool, numbers of nodes, " + name, 3);
  scenario.faults.same_speed = true;
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, happens](World& world) {
    auto story = std::make_shared<Story>();
    Process& first = world.spawn(0, [&world, &pool, story] {
      world.until([&] { return story->first_is_there; });
      (void)try_to_attach(world, pool);
    });
    first.may_exit = true;
    world.spawn(1, [&world, &pool, story] {
      const auto stays = pool.attach(world);
      story->first_is_there = true;
      while (!story->over) {
        take_a_turn(world, *stays, *story);
        if (!story->busy) world.sleep(20'000'000);
        if (world.random() % 2 == 0) world.sleep(world.random() % 500'000);
      }
    });
    world.spawn(2, [&world, &pool, story, &first] {
      world.until([&] { return gone(first) || first.stopped; });
      for (; !story->over; ++story->turns) {
        const auto attached = try_to_attach(world, pool);
        if (attached) take_a_turn(world, *attached, *story);
        if (!attached) world.sleep(pool.lease_ns(world));
      }
    });
    happens(world, first, *story);
  };
  return scenario;
}

// ---- killed ------------------------------------------------------------------------------------

/// It is killed in a line, which is dirty in its caches then, and leaves them later.
TEST(NodeNumbers, WhatTheDeadHaveLeftDirtyComesOverNobodysLines) {
  const SimulatedPool pool({.max_processes = 8, .max_nodes = 2});
  Scenario scenario = one_after_another(
      pool, "killed in a line", [&pool](World& world, Process& first, Story& story) {
        first.dies_after_publish = 8 + world.random() % 12;  // before it has a slot
        world.spawn(1, [&world, &pool, &first, &story] {
          world.until([&] { return gone(first); });
          const std::uint64_t until = world.now_ns() + 20 * pool.lease_ns(world);
          world.until([&] { return story.turns > 0 || world.now_ns() > until; });
          story.busy = true;
          const auto held_by_its_next_owner = [&story] {
            return story.holder != nullptr && story.holder->node == 2;
          };
          while (!held_by_its_next_owner() && world.now_ns() < until) world.yield();
          world.evict_left_dirty();
          const int turns = story.turns;
          world.until([&] { return story.turns > turns + 3 || world.now_ns() > until; });
          story.over = true;
        });
      });
  scenario.swarm = false;
  scenario.faults.stored = 1000;
  scenario.faults.evict = 0;
  expect_held("pool", "deaths within a line", explore(scenario, 100));
}

// ---- stopped -----------------------------------------------------------------------------------

/// It is stopped behind any look, given up, and goes on when its number is another host's.
Scenario goes_on_late(const SimulatedPool& pool) {
  Scenario scenario = one_after_another(
      pool, "stopped for leases", [&pool](World& world, Process& first, Story& story) {
        first.stops_after_load = 1 + world.random() % 500;
        world.spawn(1, [&world, &pool, &first, &story] {
          world.until([&] { return gone(first) || first.stopped; });
          const std::uint64_t until = world.now_ns() + 20 * pool.lease_ns(world);
          world.until([&] { return story.turns > 0 || world.now_ns() > until; });
          for (std::uint64_t yields = world.random() % 100; yields > 0; --yields) world.yield();
          story.busy = true;
          first.stopped = false;
          const int turns = story.turns;
          world.until([&] { return story.turns > turns + 6 || world.now_ns() > 2 * until; });
          story.over = true;
        });
      });
  scenario.faults.max_delay = 10;  // where all sleep, a delayed heartbeat is late by leases
  return scenario;
}

TEST(NodeNumbers, WhoGoesOnLateHarmsNotTheNextOwner) {
  const SimulatedPool pool({.max_processes = 8, .max_nodes = 2});
  expect_held("pool", "random schedules", explore(goes_on_late(pool), 60));
}

TEST(NodeNumbers, WhoGoesOnLateHarmsNotTheNextOwnerOfItsBlocks) {
  const SimulatedPool pool({.max_processes = 32, .max_nodes = 2});
  expect_held("pool", "random schedules", explore(goes_on_late(pool), 60));
}

// ---- a line of attaching processes -------------------------------------------------------------

/// What a foreign process has stored there is no token of anybody for ever.
TEST(NodeNumbers, AVisitEndsWhateverStoodInItsLine) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, a line of visits was overwritten", 2);
  scenario.body = [&pool](World& world) {
    world.spawn(0, [&world, &pool] {
      const auto parts = pool::open_parts(pool.path(), pool::Access::read);
      const auto superblock = pool::check_superblocks(*parts, pool.path());
      const pool::AttachingTable attaching(world.memory(), world.base(), *superblock);
      (void)pool.attach(world);
      for (int round = 0; round < 3; ++round) {
        for (std::uint32_t word = 0; word < 8; ++word)
          world.memory().publish_word(world.base() + superblock->attaching_offset + 8 * word,
                                      round == 0 ? ~0ull : world.random());
        world.memory().full_fence();
        for (int times = 0; times < 2; ++times) {
          const auto attached = pool.attach(world);
          const auto line = attaching.read(0);
          world.require(line && line->beat == 0, "a visit is not over");
        }
      }
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 20));
}

}  // namespace
}  // namespace penstock::sim
