// The table of flushes and the clock of deaths: read while a process writes them and is killed.
#include <gtest/gtest.h>

#include <memory>

#include "pool/flush_table.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

pool::FlushTable table_of(World& world) {
  return pool::FlushTable(world.memory(), world.base(), 0, 2);
}

Scenario of_the_table(const std::string& name, std::uint32_t nodes) {
  Scenario scenario;
  scenario.name = "quarantine, " + name;
  scenario.nodes = nodes;
  scenario.device_bytes = 1 << 16;
  return scenario;
}

/// The writer of the table dies within a line: a reader then waits for more flushes, not for fewer.
Scenario torn_table() {
  Scenario scenario = of_the_table("the table is torn", 2);
  scenario.body = [](World& world) {
    auto least = std::make_shared<std::uint64_t>(0);
    Process& mortal = world.mark_victim(world.spawn(0, [&world, least] {
      const auto mine = table_of(world);
      for (int i = 0; i < 40; ++i) {
        mine.record_deaths({0});
        world.memory().full_fence();
        *least = mine.clock().ticks;
        mine.record_flush(1, {.ticks = *least});
        mine.tick();
      }
    }));
    world.spawn(1, [&world, least, &mortal] {
      const auto theirs = table_of(world);
      std::uint64_t seen = 0;
      for (int looks = 0; looks < 60; ++looks) {
        const std::uint64_t known = *least;
        const auto times = theirs.times();
        const auto clock = theirs.clock();
        world.require(times.deaths[0] >= known, "a death was forgotten");
        world.require(clock.last_death >= known && clock.ticks >= seen, "the clock went back");
        world.require(times.flushes[1] <= clock.ticks, "a flush that never happened is recorded");
        seen = clock.ticks;
        if (gone(mortal)) continue;
        world.sleep(1'000'000);
      }
    });
  };
  return scenario;
}
TEST(FlushTable, ATornTableMakesMoreWaitNotLess) {
  expect_held("quarantine", "random schedules", explore(torn_table(), 60));
  expect_held("quarantine", "deaths within a line",
              explore(dying_in_a_line(torn_table(), 120), 400));
}

/// Two nodes tick in turn, as holders of the pool's lock do.
Scenario ticks_in_turn() {
  constexpr std::uint64_t ticks = 40;
  Scenario scenario = of_the_table("ticks in turn", 2);
  scenario.body = [](World& world) {
    auto now = std::make_shared<std::uint64_t>(0);
    for (std::uint32_t node = 0; node < 2; ++node) {
      world.spawn(node, [&world, now, node] {
        const pool::FlushTable table = table_of(world);
        for (std::uint64_t mine = node; mine < ticks; mine += 2) {
          world.until([&] { return *now == mine; });
          world.require(table.clock().ticks == mine, "an old clock");
          if (mine % 4 < 2) {
            table.tick();
          } else {
            table.record_deaths({node});
          }
          world.memory().full_fence();
          ++*now;
        }
      });
    }
  };
  return scenario;
}
TEST(FlushTable, NoTickIsLost) {
  expect_held("quarantine", "random schedules", explore(with_lasting_copies(ticks_in_turn()), 20));
}

/// Lines arrive in parts and late: one of the two copies is whole all the same.
Scenario slow_ticks() {
  Scenario scenario = of_the_table("slow ticks", 2);
  scenario.swarm = false;
  scenario.faults.tear = 900;
  scenario.faults.deliver = 60;
  scenario.faults.evict = scenario.faults.prefetch = scenario.faults.drop_early = 0;
  scenario.body = [](World& world) {
    Process& mortal = world.mark_victim(world.spawn(0, [&world] {
      const auto mine = table_of(world);
      for (int i = 0; i < 60; ++i) mine.tick();
    }));
    world.spawn(1, [&world, &mortal] {
      const auto theirs = table_of(world);
      std::uint64_t seen = 0;
      for (int looks = 0; looks < 80; ++looks) {
        const auto clock = theirs.clock();
        world.require(clock.ticks < pool::FlushTable::unreadable_ticks, "no readable clock");
        world.require(clock.ticks >= seen, "the clock went back");
        seen = clock.ticks;
        if (gone(mortal)) world.sleep(1'000'000);
      }
    });
  };
  return scenario;
}
TEST(FlushTable, TheClockIsReadableWhileItTicks) {
  expect_held("quarantine", "random schedules", explore(slow_ticks(), 100));
  expect_held("quarantine", "deaths within a line",
              explore(dying_in_a_line(slow_ticks(), 120), 400));
}

Scenario written_elsewhere() {
  Scenario scenario = of_the_table("what one node writes another reads", 2);
  scenario.swarm = false;
  scenario.faults.evict = scenario.faults.prefetch = 0;
  scenario.body = [](World& world) {
    auto phase = std::make_shared<int>(0);
    world.spawn(0, [&world, phase] {
      const auto table = table_of(world);
      const auto next = [&world, phase] {
        const int reached = ++*phase;
        world.until([phase, reached] { return *phase > reached; });
      };
      table.record_deaths({0, 1});
      world.memory().full_fence();
      next();
      table.forget_deaths(1);
      table.record_flush(0, {.ticks = 7, .leader = 11, .steps = 13});
      next();  // the record arrives without a fence of the caller
    });
    world.spawn(1, [&world, phase] {
      const auto table = table_of(world);
      world.until([phase] { return *phase == 1; });
      const auto before = table.times();
      world.require(table.flushed(0) == 0, "a flush is recorded before there was one");
      world.require(before.deaths[0] == 1 && before.deaths[1] == 1, "deaths are not recorded");
      ++*phase;
      world.until([phase] { return *phase == 3; });
      const pool::FlushTable::Flush recorded{.ticks = 7, .leader = 11, .steps = 13};
      world.until([&] { return table.flush(0) == recorded; });
      world.until([&] {
        const auto after = table.times();
        return after.deaths[0] == 1 && after.deaths[1] == 0 && after.flushes[0] == 7;
      });
      ++*phase;
    });
  };
  return scenario;
}
TEST(FlushTable, WhatOneNodeWritesAnotherReads) {
  expect_held("quarantine", "random schedules", explore(written_elsewhere(), 20));
  expect_held("quarantine", "late stores", explore(with_late_stores(written_elsewhere()), 20));
}

/// One is killed between two ticks, the next within one: then the first one's caches are emptied.
Scenario dead_tickers() {
  Scenario scenario = of_the_table("one after another dies ticking", 3);
  scenario.swarm = false;
  scenario.faults.tear = 900;
  scenario.faults.evict = scenario.faults.prefetch = 0;
  scenario.body = [](World& world) {
    auto known = std::make_shared<std::uint64_t>(0);
    const std::uint32_t first = world.random() % 2;
    Process& killed = world.spawn(first, [&world, known] {
      const auto table = table_of(world);
      for (int i = 0; i < 5; ++i) table.tick();
      world.memory().full_fence();
      *known = table.clock().ticks;
      world.sleep(3'600'000'000'000);
    });
    Process& torn = world.spawn(1 - first, [&world, known, &killed] {
      world.until([&] { return *known == 5; });
      world.kill(killed);
      const auto table = table_of(world);
      for (int i = 0; i < 3; ++i) table.tick();
      world.memory().full_fence();
      *known = table.clock().ticks;
      world.self().dies_after_publish = world.self().publishes + 1 + world.random() % 2;
      table.tick();
      (void)table.clock();  // it dies at the operation after that line
    });
    torn.may_exit = true;
    world.spawn(2, [&world, known, &torn] {
      world.until([&] { return torn.dead; });
      world.evict_left_dirty();
      const auto clock = table_of(world).clock();
      world.require(clock.ticks < pool::FlushTable::unreadable_ticks, "no readable clock");
      world.require(clock.ticks >= *known, "the clock went back");
    });
  };
  return scenario;
}
TEST(FlushTable, DirtyLinesOfDeadNeverTurnClockBack) {
  expect_held("quarantine", "random schedules", explore(dead_tickers(), 200));
}

}  // namespace
}  // namespace penstock::sim
