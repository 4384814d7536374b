// A vandal overwrites the lines in which processes describe themselves, and their lines of the
// pool's lock: the living restore them and are not declared dead, deaths are noticed as usual, and
// no process waits in vain.
#include <gtest/gtest.h>

#include "pool/layout.hpp"
#include "pool/members.hpp"
#include "pool/reclaim.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim::overwritten_test {
namespace {

using device::Superblock;

/// Users 0 and 1, on nodes of the same numbers, and the vandal on node 2.
struct Case {
  std::uint64_t tokens[2] = {};
  Process* holder = nullptr;
  bool done[2] = {};
  bool vandal_done = false;
  bool met() const { return tokens[0] != 0 && tokens[1] != 0; }
};

void hold_lock(World& world, pool::Pool& pool, Case& all) {
  const auto guard = pool.lock();
  world.require(guard.has_value(), guard ? "" : guard.error().message);
  world.require(all.holder == nullptr || gone(*all.holder) || all.holder->may_exit,
                "two processes hold the lock");
  all.holder = &world.self();
  world.sleep(world.random() % 3'000'000);
  all.holder = nullptr;
}

/// Runs until the vandal is done, and some rounds more: takes the lock, or never does, and checks
/// whether the other lives.
void use(World& world, const SimulatedPool& simulated, Case& all, std::size_t number) {
  const auto pool = simulated.attach(world);
  all.tokens[number] = pool->token();
  Process& other = *world.processes()[1 - number];
  wait_until(world, "the other", [&] { return all.met() || gone(other); });
  hold_lock(world, *pool, all);
  const bool idle = world.random() % 2 == 0;
  for (int after = 0; after < 3; after += all.vandal_done ? 1 : 0) {
    const bool alive = pool->alive(all.tokens[1 - number]);
    world.require(alive || gone(other) || other.stopped, "a living process is taken for dead");
    if (!idle) hold_lock(world, *pool, all);
    world.sleep(world.random() % (simulated.lease_ns(world) / 4));
  }
  // The other may have to wait for lines of this one.
  all.done[number] = true;
  wait_until(world, "the other",
             [&] { return gone(other) || other.stopped || all.done[1 - number]; });
}

/// Any word of a state line; any word of a lock line except its token, which names its owner.
std::byte* somewhere(World& world, const pool::Pool& pool, const Case& all) {
  const auto& superblock = *reinterpret_cast<const Superblock*>(pool.base());
  const std::uint64_t whose = world.random() % 2;
  if (world.random() % 2 == 0)
    return pool.base() + superblock.states_offset + 64 * (all.tokens[whose] & 0xffff) +
           8 * (world.random() % 8);
  return pool.base() + superblock.lock_offset + 64 * whose + 8 * (1 + world.random() % 7);
}

/// Ends when all that must be restored is restored.
void overwrite(World& world, const SimulatedPool& simulated, Case& all, int times) {
  const auto pool = simulated.attach(world, {.observer = true});
  wait_until(world, "both", [&] {
    return all.met() || gone(*world.processes()[0]) || gone(*world.processes()[1]);
  });
  for (; times > 0 && all.met(); --times) {
    world.sleep(world.random() % simulated.lease_ns(world));
    pool->memory().publish_word(somewhere(world, *pool, all), world.random());
    pool->memory().store_fence();
  }
  const auto lives = [&world](int number) {
    return !gone(*world.processes()[number]) && !world.processes()[number]->stopped;
  };
  wait_until(world, "states to be restored",
             [&] { return pool->members().processes().size() == 2 || !lives(0) || !lives(1); });
  all.vandal_done = true;
}

Scenario overwritten(const SimulatedPool& simulated, const char* name) {
  Scenario scenario = simulated.scenario(name, 3);
  scenario.max_steps = 20'000'000;
  scenario.faults.max_delay = 10;  // when all sleep, a delayed heartbeat is late by several leases
  return scenario;
}

TEST(Overwritten, WhoLivesRestoresWhatItSaysOfItself) {
  const SimulatedPool pool;
  Scenario scenario = overwritten(pool, "pool, its lines are overwritten");
  scenario.body = [&pool](World& world) {
    auto all = std::make_shared<Case>();
    for (std::uint32_t number : {0, 1})
      world.spawn(number, [&world, &pool, all, number] { use(world, pool, *all, number); });
    world.spawn(2, [&world, &pool, all] { overwrite(world, pool, *all, 6); });
  };
  expect_held("pool", "random schedules", explore(scenario, 60));
}

TEST(Overwritten, WhoDiesThereIsMissedAsEver) {
  const SimulatedPool pool;
  Scenario scenario = overwritten(pool, "pool, one whose lines are overwritten dies");
  scenario.body = [&pool](World& world) {
    auto all = std::make_shared<Case>();
    for (std::uint32_t number : {0, 1}) {
      Process& user =
          world.spawn(number, [&world, &pool, all, number] { use(world, pool, *all, number); });
      if (number == 0) world.mark_victim(user);
    }
    world.spawn(2, [&world, &pool, all] {
      overwrite(world, pool, *all, 4);
      wait_until(world, "both to end",
                 [&] { return gone(*world.processes()[0]) && gone(*world.processes()[1]); });
      const auto after = pool.attach(world);
      for (const std::uint64_t token : all->tokens)
        wait_until(world, "a death to be seen", [&] { return !after->alive(token); });
      wait_until(world, "the dead to be reaped", [&] {
        world.require(after->reclaim().reap([](const auto&) {}).has_value(), "reap");
        const auto records = after->members().processes();
        return std::none_of(records.begin(), records.end(), [&](const auto& record) {
          return record.attached && record.slot != after->slot();
        });
      });
    });
  };
  expect_held("pool", "crash points", crash_everywhere(scenario, 60));
}

/// A process that was declared dead meanwhile ends; the others go on.
TEST(Overwritten, WhoIsStoppedThereGoesOnOrEnds) {
  const SimulatedPool pool;
  Scenario scenario = overwritten(pool, "pool, one whose lines are overwritten is stopped");
  scenario.body = [&pool](World& world) {
    auto all = std::make_shared<Case>();
    for (std::uint32_t number : {0, 1})
      world.spawn(number, [&world, &pool, all, number] { use(world, pool, *all, number); });
    world.spawn(2, [&world, &pool, all] {
      Process& late = *world.processes()[0];
      late.may_exit = true;
      wait_until(world, "both", [&] { return all->met(); });
      world.sleep(world.random() % pool.lease_ns(world));
      late.stopped = true;
      overwrite(world, pool, *all, 2);
      world.sleep(world.random() % (3 * pool.lease_ns(world)));
      late.stopped = false;
      wait_until(world, "it to leave or to end", [&] { return gone(late); });
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 60));
}

}  // namespace
}  // namespace penstock::sim::overwritten_test
