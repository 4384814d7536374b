// Deaths that are not recorded when space is freed, or are recorded late: each case once gave space
// to a new owner while lines of the dead were still to arrive.
#include <gtest/gtest.h>

#include "arena/region.hpp"
#include "pool/flush_table.hpp"
#include "pool/members.hpp"
#include "pool/reclaim.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/small_pool.hpp"

namespace penstock::sim {
namespace {

/// A process stores to another's object and dies; the owner knows that, and destroys the object (or
/// leaves).
Scenario stored_to_foreign_object(const SmallPool& pool, bool leaves, const std::string& job) {
  Scenario scenario =
      case_of(pool, leaves ? "stored to another's, who leaves" : "stored to another's");
  scenario.body = [&pool, leaves, job](World& world) {
    auto stored = std::make_shared<bool>(false);
    auto ready = std::make_shared<bool>(false);
    auto left = std::make_shared<bool>(false);
    Process& mortal = world.spawn(1, [&world, &pool, stored, ready, job] {
      SpaceUser worker(world, pool, job);
      wait_until(world, "object", [&] { return *ready; });
      store_to_foreign_object(world, worker, "shared");
      *stored = true;
      wait_for_death(world);
    });
    world.spawn(2, [&world, &pool, &mortal, stored, ready, left, leaves, job] {
      {
        SpaceUser worker(world, pool, job);
        const auto made = worker.create("shared", 20000);
        world.require(made.has_value(), "create");
        *ready = true;
        wait_until(world, "stored", [&] { return *stored; });
        const auto tokens = tokens_of(worker, job);
        world.kill(mortal);
        await_deaths(world, worker, tokens);
        if (!leaves) {
          worker.send_on_and_destroy(*made);
          give_away(world, worker);
        }
      }
      *left = true;
    });
    if (leaves)
      world.spawn(0, [&world, &pool, left] {
        wait_until(world, "owner", [&] { return *left; });
        SpaceUser worker(world, pool, "another");
        give_away(world, worker);
      });
  };
  return scenario;
}
TEST(Quarantine, DestroysObjectsThatDeadStoredTo) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules",
              explore(stored_to_foreign_object(pool, false, ""), 3));
}
TEST(Quarantine, WhoLeavesAsksNobody) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules",
              explore(stored_to_foreign_object(pool, true, "one"), 3));
}

/// Times that were read before a death which the same holder of the lock records.
Scenario cached_times(const SmallPool& pool) {
  Scenario scenario = case_of(pool, "a death under the same lock");
  scenario.body = [&pool](World& world) {
    auto phase = std::make_shared<int>(0);
    Process& first = world.spawn(2, [&world, &pool, phase] {
      SpaceUser worker(world, pool, "d1");
      const auto made = worker.create("d1", 2000);
      SpaceUser::store(*made);
      *phase = 1;
      wait_for_death(world);
    });
    Process* second = &world.spawn(1, [&world, &pool, phase] {
      await(world, *phase, 2);
      SpaceUser worker(world, pool, "d2");
      const auto made = worker.create("d2", 25000);
      world.require(made.has_value(), "d2");
      SpaceUser::store(*made);
      *phase = 3;
      wait_for_death(world);
    });
    world.spawn(0, [&world, &pool, phase, &first, second] {
      SpaceUser worker(world, pool, "r");
      await(world, *phase, 1);
      world.kill(first);
      wait_until(world, "first dead", [&] {
        (void)worker.arena->collect();
        return worker.arena->stats().bytes_quarantined != 0;
      });
      *phase = 2;
      await(world, *phase, 3);
      const auto tokens = tokens_of(worker, "d2");
      world.kill(*second);
      await_deaths(world, worker, tokens);
      const auto big = worker.create("big", 30000);
      if (!big) return;  // right: nobody of node 1 has flushed
      worker.publish(*big);
      check(world, worker, {*big});
    });
  };
  return scenario;
}
TEST(Quarantine, CountsDeathRecordedUnderSameLock) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(cached_times(pool), 3));
}

/// A process is killed between journal and header of an extent that it sets aside; the next one's
/// record_deaths ticks.
Scenario journal(const SmallPool& pool) {
  Scenario scenario = case_of(pool, "a journal finished late");
  scenario.swarm = false;
  scenario.faults.evict = 0;
  scenario.body = [&pool](World& world) {
    auto phase = std::make_shared<int>(0);
    auto dead = std::make_shared<Process*>(nullptr);
    // stays on node 1 and flushes at its heartbeats
    world.spawn(1, [&world, &pool, phase] {
      SpaceUser worker(world, pool, "stays");
      if (*phase == 0) *phase = 1;
      wait_until(world, "end", [&] { return *phase == 9; });
    });
    Process& mortal = world.spawn(1, [&world, &pool, phase] {
      await(world, *phase, 2);
      SpaceUser worker(world, pool, "mortal");
      store_to_foreign_object(world, worker, "shared");
      *phase = 3;
      wait_for_death(world);
    });
    Process* killer = &world.spawn(0, [&world, &pool, phase] {
      await(world, *phase, 1);
      SpaceUser worker(world, pool, "killer");
      const auto made = worker.arena->create("shared", 20000);
      world.require(made.has_value(), "create");
      *phase = 2;
      await(world, *phase, 4);
      int publishes = 0;
      arena::after_publish_hook() = [&world, &publishes] {
        // word of the name, image, journal
        if (++publishes == 3) world.self().dies_at = world.self().operations + 2;
      };
      (void)worker.arena->destroy(*made);
      world.require(false, "survived");
    });
    world.spawn(0, [&world, &pool, phase, &mortal, killer] {
      SpaceUser worker(world, pool, "r");
      await(world, *phase, 3);
      world.kill(mortal);
      reclaim_dead(world, worker, "mortal");
      *phase = 4;
      wait_until(world, "killer", [&] { return gone(*killer); });
      arena::after_publish_hook() = {};
      std::uint32_t reaped = 0;
      wait_until(world, "reaped", [&] {
        const auto done =
            worker.pool->reclaim().reap([&](const auto&) { world.sleep(300'000'000); });
        reaped += done.value_or(0);
        return reaped != 0;
      });
      world.sleep(1'000'000);
      give_away(world, worker);
      *phase = 9;
    });
  };
  return scenario;
}
TEST(Quarantine, AJournalThatIsFinishedLateTicksAnew) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(journal(pool), 1));
}

/// Two ranks of a job die on two nodes; another job claims the name of one: only the owner's death
/// is recorded.
Scenario mate_of_the_buried(const SmallPool& pool) {
  Scenario scenario = case_of(pool, "a mate of the reclaimed");
  scenario.body = [&pool](World& world) {
    auto phase = std::make_shared<int>(0);
    Process& owner = world.spawn(1, [&world, &pool, phase] {
      await(world, *phase, 1);
      SpaceUser worker(world, pool, "j");
      world.require(worker.create("win", 20000).has_value(), "create");
      *phase = 2;
      wait_for_death(world);
    });
    Process& mate = world.spawn(2, [&world, &pool, phase] {
      await(world, *phase, 2);
      SpaceUser worker(world, pool, "j");
      store_to_foreign_object(world, worker, "win");
      *phase = 3;
      wait_for_death(world);
    });
    world.spawn(0, [&world, &pool, phase, &owner, &mate] {
      SpaceUser worker(world, pool, "other");
      *phase = 1;
      await(world, *phase, 3);
      const auto tokens = tokens_of(worker, "j");
      world.kill(owner);
      world.kill(mate);
      await_deaths(world, worker, tokens);
      const auto win = worker.create("win", 3000);
      world.require(win.has_value(), "win");
      auto flushed = std::make_shared<bool>(false);
      world.spawn(1, [&world, &pool, flushed] {
        { const SpaceUser flushes(world, pool, "third"); }
        *flushed = true;
      });
      wait_until(world, "node 1", [&] { return *flushed; });
      give_away(world, worker);
    });
  };
  return scenario;
}
TEST(Quarantine, MatesOfTheBuriedCount) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(mate_of_the_buried(pool), 3));
}

/// An allocation is refused although the space has just been freed.
Scenario just_flushed(const SmallPool& pool) {
  Scenario scenario = case_of(pool, "just flushed");
  scenario.body = [&pool](World& world) {
    auto stored = std::make_shared<bool>(false);
    auto end = std::make_shared<bool>(false);
    Process& mortal = world.spawn(1, [&world, &pool, stored] {
      SpaceUser worker(world, pool, "m");
      const auto made = worker.create("m", 30000);
      SpaceUser::store(*made);
      *stored = true;
      wait_for_death(world);
    });
    world.spawn(1, [&world, &pool, end] {
      const SpaceUser stays(world, pool, "stays");
      wait_until(world, "end", [&] { return *end; });
    });
    world.spawn(2, [&world, &pool, stored, &mortal, end] {
      wait_until(world, "stored", [&] { return *stored; });
      world.kill(mortal);
      SpaceUser worker(world, pool, "two");
      reclaim_dead(world, worker, "m");
      const auto made = worker.arena->create("big", 40000, {.zero = false});
      const auto waits = worker.arena->quarantine();
      world.require(made || !waits.waits_for.empty(),
                    fmt::format("refused, though nobody is waited for: {}",
                                made ? "" : made.error().message));
      world.require(made.has_value(), fmt::format("refused: {}", made ? "" : made.error().message));
      *end = true;
    });
  };
  return scenario;
}
TEST(Quarantine, SpaceThatHasJustComeBackIsGiven) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(just_flushed(pool), 120));
}

/// C interface, no job: owner and user are killed on two nodes at the same time; the owner's node
/// goes on at once.
Scenario no_job(const SmallPool& pool) {
  Scenario scenario = case_of(pool, "two hosts at once");
  scenario.body = [&pool](World& world) {
    auto phase = std::make_shared<int>(0);
    Process& owner = world.spawn(1, [&world, &pool, phase] {
      SpaceUser worker(world, pool);
      world.require(worker.create("win", 20000).has_value(), "create");
      *phase = 1;
      wait_for_death(world);
    });
    Process& user = world.spawn(2, [&world, &pool, phase] {
      await(world, *phase, 1);
      SpaceUser worker(world, pool);
      store_to_foreign_object(world, worker, "win");
      *phase = 2;
      wait_for_death(world);
    });
    world.spawn(1, [&world, &pool, phase, &owner, &user] {
      await(world, *phase, 2);
      world.kill(owner);
      world.kill(user);
      SpaceUser worker(world, pool);
      give_away(world, worker);
    });
  };
  return scenario;
}
TEST(Quarantine, DeathsOnTwoHostsAtOnceBothCount) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(no_job(pool), 3));
}

/// The dead process owned nothing; the process that reaps it dies meanwhile. No later process
/// records a death that the table of processes marks as handled.
Scenario reaper_dies(const SmallPool& pool) {
  Scenario scenario = case_of(pool, "a reaper dies");
  scenario.swarm = false;
  scenario.faults.deliver = 30;
  scenario.body = [&pool](World& world) {
    auto token = std::make_shared<std::uint64_t>(0);
    Process& dead = world.spawn(1, [&world, &pool, token] {
      const auto attached = pool.attach(world);
      *token = attached->token();
      wait_for_death(world);
    });
    Process& reaper = world.spawn(2, [&world, &pool, token, &dead] {
      const auto attached = pool.attach(world);
      world.until([&] { return *token != 0; });
      world.kill(dead);
      wait_until(world, "the death to be seen", [&] { return !attached->alive(*token); });
      world.self().publishes = 0;
      world.self().dies_after_publish = 1 + world.random() % 14;
      world.self().dies_with_node = true;
      (void)attached->reclaim().reap({});
      wait_for_death(world);
    });
    reaper.may_exit = true;
    world.spawn(0, [&world, &pool, token, &reaper] {
      world.until([&] { return reaper.dead; });
      const auto attached = pool.attach(world);
      for (const auto& record : attached->members().processes()) {
        const bool recorded = attached->reclaim().flushes().times().deaths[record.node] != 0;
        world.require(record.token() != *token || record.attached || recorded,
                      "a process is marked as reaped, but its death is not recorded");
      }
    });
  };
  return scenario;
}
TEST(Quarantine, WhoIsMarkedAsReapedIsRecorded) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(reaper_dies(pool), 60));
}

/// Only a person can know that a host will not come back.
Scenario host_is_gone(const SmallPool& pool) {
  Scenario scenario = pool.scenario("quarantine, a host is gone", nodes);
  scenario.body = [&pool](World& world) {
    Process& mortal = world.spawn(1, [&world, &pool] {
      SpaceUser worker(world, pool, "gone");
      const auto made = worker.create("segment", segment_bytes);
      if (made) SpaceUser::store(*made);
      wait_for_death(world);
    });
    world.spawn(2, [&world, &pool, &mortal] {
      SpaceUser worker(world, pool, "stays");
      world.sleep(50'000'000);
      world.lose_node(1);
      world.require(mortal.dead, "it lives");
      wait_until(world, "the death to be found", [&] {
        (void)worker.arena->collect();
        const auto records = worker.pool->members().processes();
        return std::count_if(records.begin(), records.end(),
                             [](const auto& record) { return record.attached; }) == 1;
      });
      for (const auto& node : worker.arena->quarantine().waits_for) {
        const auto ended = worker.arena->end_quarantine_of(node.node);
        world.require(ended.has_value(), ended ? "" : ended.error().message);
      }
      const auto stats = worker.arena->stats();
      world.require(stats.bytes_quarantined == 0, "some space is still in quarantine");
    });
  };
  return scenario;
}
TEST(Quarantine, StopsWaitingForLostHost) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(host_is_gone(pool), 30));
}

}  // namespace
}  // namespace penstock::sim
