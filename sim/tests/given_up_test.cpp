// Processes that were declared dead while they were stopped, and go on: their stores until they
// learn of it must not outlive the flush of their host, nor may their writes under a lock that is
// no longer theirs.
#include <gtest/gtest.h>

#include "arena/region.hpp"
#include "pool/flush_table.hpp"
#include "pool/members.hpp"
#include "pool/reclaim.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/small_pool.hpp"
#include "sim/tests/stops.hpp"

namespace penstock::sim {
namespace {

/// Phases 3 to 9: the late process goes on while space that it may store to has another owner.
void resume_late_process(World& world, SpaceUser& worker, Process& late, int& phase) {
  const auto first = fill_and_publish(world, worker, 3);
  phase = 3;
  late.stopped = false;
  wait_until(world, "the late one to end", [&] { return gone(late); });
  // objects that were hit meanwhile are written again, or given back: now all is right, and quiet
  for (const auto& each : first) worker.send_on_and_destroy(each);
  const auto next = fill_and_publish(world, worker);
  world.sleep(400'000'000);
  check(world, worker, next);
  phase = 9;
}

/// Declared dead by a living process of its node: no process reaps it, so its slot stays attached.
Scenario mate_goes_on(const SmallPool& pool) {
  Scenario scenario = case_of(pool, "given up, by its mates");
  scenario.swarm = false;
  scenario.faults.evict = 0;
  scenario.body = [&pool](World& world) {
    auto phase = std::make_shared<int>(0);
    Process& late = world.spawn(1, [&world, &pool, phase] {
      SpaceUser worker(world, pool, "one");
      await(world, *phase, 1);
      const auto shared = worker.arena->open("shared");
      world.require(shared.has_value(), "open");
      SpaceUser::store(*shared);
      *phase = 2;
      await(world, *phase, 3);
      std::memset(shared->data, 0x33, shared->bytes);  // right after it goes on
      *phase = 4;
      wait_for_death(world);
    });
    late.may_exit = true;
    world.spawn(1, [&world, &pool, phase] {
      SpaceUser worker(world, pool, "stays");
      wait_until(world, "end", [&] { return *phase == 9; });
    });
    world.spawn(2, [&world, &pool, phase, &late] {
      SpaceUser worker(world, pool, "one");
      const auto shared = worker.arena->create("shared", 20000);
      world.require(shared.has_value(), "create");
      *phase = 1;
      await(world, *phase, 2);
      const auto tokens = tokens_of(worker, "one");
      late.stopped = true;
      await_deaths(world, worker, tokens);
      worker.send_on_and_destroy(*shared);
      world.sleep(300'000'000);
      resume_late_process(world, worker, late, *phase);
    });
  };
  return scenario;
}
TEST(GivenUp, NoFlushWhileDeclaredDeadProcessRuns) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(mate_goes_on(pool), 20));
}

/// A process that is declared dead and goes on, and another one on its node, which flushes for the
/// host.
Process& spawn_late(World& world, const SmallPool& pool, const std::shared_ptr<int>& phase) {
  Process& late = world.spawn(1, [&world, &pool, phase] {
    SpaceUser worker(world, pool, "late");
    const auto made = worker.create("late", 20000);
    *phase = 1;
    await(world, *phase, 3);
    SpaceUser::store(*made);  // right after it goes on
    *phase = 4;
    wait_for_death(world);
  });
  late.may_exit = true;
  world.spawn(1, [&world, &pool, phase] {
    SpaceUser worker(world, pool, "stays");
    wait_until(world, "end", [&] { return *phase == 9; });
  });
  return late;
}

/// Its stores before it learns of the verdict would be dirty after its node has flushed, without a
/// record of that.
Scenario goes_on(const SmallPool& pool) {
  Scenario scenario = case_of(pool, "given up, reaped");
  scenario.body = [&pool](World& world) {
    auto phase = std::make_shared<int>(0);
    Process& late = spawn_late(world, pool, phase);
    world.spawn(2, [&world, &pool, phase, &late] {
      SpaceUser worker(world, pool, "two");
      await(world, *phase, 1);
      late.stopped = true;
      reclaim_dead(world, worker, "late");
      world.sleep(300'000'000);
      (void)worker.arena->collect();
      resume_late_process(world, worker, late, *phase);
    });
  };
  return scenario;
}
TEST(GivenUp, NobodyFlushesBeforeTheGivenUpHasEnded) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(goes_on(pool), 20));
}

/// Its slot goes to others before it goes on.
Scenario slot_is_reused(const SmallPool& pool) {
  Scenario scenario = case_of(pool, "given up, its slot is reused");
  scenario.swarm = false;
  scenario.faults.evict = 0;
  scenario.body = [&pool](World& world) {
    auto phase = std::make_shared<int>(0);
    Process& late = spawn_late(world, pool, phase);
    world.spawn(2, [&world, &pool, phase, &late] {
      SpaceUser worker(world, pool, "two");
      await(world, *phase, 1);
      std::uint32_t slot = 99;
      for (const auto& r : worker.pool->members().processes())
        if (r.job == "late") slot = r.slot;
      late.stopped = true;
      reclaim_dead(world, worker, "late");
      // All slots are used once, and then the one that was left longest ago.
      for (int jobs = 0; jobs < 60 && pool.attach(world)->slot() != slot; ++jobs) {
      }
      world.sleep(300'000'000);
      resume_late_process(world, worker, late, *phase);
    });
  };
  return scenario;
}
TEST(GivenUp, NoFlushBeforeReplacedProcessEnds) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(slot_is_reused(pool), 20));
}

/// The lock's holder is stopped within a tick of the clock of deaths.
Scenario late_tick(const SmallPool& pool) {
  Scenario scenario = case_of(pool, "given up, stopped within a tick");
  scenario.swarm = false;
  scenario.body = [&pool](World& world) {
    auto phase = std::make_shared<int>(0);
    const std::uint64_t after = 1 + world.random() % 23;
    Process& holder = world.spawn(1, [&world, &pool, phase, after] {
      SpaceUser worker(world, pool, "h");
      const auto shared = worker.arena->create("shared", 2000);
      world.require(shared.has_value(), "create");
      *phase = 1;
      await(world, *phase, 2);
      int publishes = 0;
      Process* me = &world.self();
      arena::after_publish_hook() = [&world, &publishes, me, after] {
        if (&world.self() == me && ++publishes == 5) stop_at(*me, after);
      };
      (void)worker.arena->destroy(*shared);
      arena::after_publish_hook() = {};
      wait_for_death(world);
    });
    holder.may_exit = true;
    world.spawn(2, [&world, &pool, phase, &holder] {
      SpaceUser worker(world, pool, "two");
      await(world, *phase, 1);
      {
        const auto guard = worker.pool->lock();
        worker.pool->reclaim().flushes().record_deaths({0});
      }
      *phase = 2;
      world.sleep(100'000'000);
      if (!holder.stopped) holder.stopped = true;
      std::uint64_t before = 0;
      {
        const auto guard = worker.pool->lock();  // once the holder has been declared dead
        world.require(guard.has_value(), "lock");
        for (int i = 0; i < 5; ++i) worker.pool->reclaim().flushes().record_deaths({1});
        before = worker.pool->reclaim().flushes().clock().ticks;
      }
      holder.stopped = false;
      world.sleep(900'000'000);
      const auto now = worker.pool->reclaim().flushes().clock();
      world.require(now.ticks >= before,
                    fmt::format("the clock went back from {} to {}, last death {}", before,
                                now.ticks, now.last_death));
    });
  };
  return scenario;
}
TEST(GivenUp, TheClockDoesNotGoBack) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(late_tick(pool), 40));
}

}  // namespace
}  // namespace penstock::sim
