// Memory of the dead: their stores stay dirty in their nodes' caches and leave them at any later
// time. A new owner of the space must not find them there.
#include <gtest/gtest.h>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/small_pool.hpp"

namespace penstock::sim {
namespace {

/// One process stores and is killed; another node gets the space and publishes there. Its contents
/// must stay while lines of the dead leave their node, and when a process comes to that node.
Scenario memory_of_the_dead(const SmallPool& pool, bool lives_on) {
  Scenario scenario = pool.scenario(
      fmt::format("quarantine, the dead's node {}", lives_on ? "lives on" : "is silent"), nodes);
  scenario.body = [&pool, lives_on](World& world) {
    auto ended = std::make_shared<bool>(false);
    Process& mortal = world.mark_victim(world.spawn(1, [&world, &pool] {
      SpaceUser worker(world, pool, "one");
      std::vector<Object> kept;
      for (int i = 0; i < 4; ++i) {
        const auto segment = worker.create(fmt::format("segment{}", i), segment_bytes);
        if (!segment) break;
        SpaceUser::store(*segment);
        kept.push_back(*segment);
      }
      worker.world.sleep(1'000'000);
    }));
    if (lives_on) {
      world.spawn(1, [&world, &pool, ended] {
        const SpaceUser keeps(world, pool, "lives on");
        wait_until(world, "the others", [&] { return *ended; });
      });
    }
    world.spawn(2, [&world, &pool, &mortal, ended] {
      wait_until(world, "the mortal", [&] { return gone(mortal); });
      SpaceUser worker(world, pool, "two");
      std::vector<Object> made;
      for (int i = 0; i < 40; ++i) {
        const auto object = worker.create(fmt::format("next{}", i), 600 + world.random() % 900);
        if (!object) break;
        worker.publish(*object);
        made.push_back(*object);
      }
      world.sleep(200'000'000);
      for (const Object& object : made) worker.require_whole(object, "after a while");
      auto observed = std::make_shared<bool>(false);
      world.spawn(1, [&world, &pool, made, observed] {
        SpaceUser reader(world, pool, "two");
        for (const Object& object : made) reader.require_whole(object, "on the dead's node");
        *observed = true;
      });
      wait_until(world, "the reader", [&] { return *observed; });
      world.evict_left_dirty();
      for (const Object& object : made) worker.require_whole(object, "when all has left");
      *ended = true;
    });
  };
  scenario.after = [&pool](World& world) { require_all_back(world, pool); };
  return scenario;
}

TEST(Quarantine, NobodyFindsWhatTheDeadStored) {
  const SmallPool pool;
  for (const bool lives_on : {false, true}) {
    const Scenario scenario = memory_of_the_dead(pool, lives_on);
    expect_held("quarantine", "random schedules", explore(scenario, 10));
    expect_held("quarantine", "crash points", crash_everywhere(scenario, 80));
  }
}

/// Job after job, with other numbers of ranks on other nodes; some ranks are killed anywhere,
/// others leave with memory to which they have stored.
Scenario jobs_after_jobs(const SmallPool& pool, std::uint32_t jobs) {
  Scenario scenario = pool.scenario("quarantine, job after job", nodes);
  scenario.max_steps = 4'000'000;
  scenario.body = [&pool, jobs](World& world) {
    auto before = std::make_shared<std::vector<Process*>>();
    for (std::uint32_t job = 0; job < jobs; ++job) {
      const std::uint64_t ranks = 1 + world.random() % nodes;
      std::vector<Process*> processes;
      for (std::uint64_t rank = 0; rank < ranks; ++rank) {
        const auto node = static_cast<std::uint32_t>(world.random() % nodes);
        const bool mortal = world.random() % 2 == 0;
        const std::uint64_t life = 200 + world.random() % 4000;
        processes.push_back(
            &world.spawn(node, [&world, &pool, job, mortal, life, earlier = *before] {
              wait_until(world, "the job before", [&] {
                return std::all_of(earlier.begin(), earlier.end(),
                                   [](const Process* process) { return gone(*process); });
              });
              if (mortal) world.self().dies_at = world.self().operations + life;
              SpaceUser worker(world, pool, fmt::format("job{}", job));
              std::vector<Object> published;
              for (int i = 0; i < 4; ++i) {
                const auto number = world.self().number;
                const auto segment = worker.create(fmt::format("s{}.{}", number, i), segment_bytes);
                if (segment) SpaceUser::store(*segment);
                const auto object = worker.create(fmt::format("p{}.{}", number, i), 1000);
                if (object) worker.publish(*object);
                if (object) published.push_back(*object);
                world.sleep(5'000'000);
                for (const Object& each : published) worker.require_whole(each, "at work");
                if (world.random() % 4 == 0) {
                  world.evict_left_dirty();
                  for (const Object& each : published) worker.require_whole(each, "all has left");
                }
                if (segment && world.random() % 2 == 0) worker.send_on_and_destroy(*segment);
              }
            }));
      }
      *before = processes;
    }
  };
  scenario.after = [&pool](World& world) { require_all_back(world, pool); };
  return scenario;
}

/// A process that learns of the flush by other means than the pool may store there at once.
Scenario sent_on(const SmallPool& pool) {
  Scenario scenario = pool.scenario("quarantine, sent on", nodes);
  scenario.body = [&pool](World& world) {
    auto objects = std::make_shared<std::vector<Object>>();
    auto announced = std::make_shared<std::size_t>(0);
    world.spawn(0, [&world, &pool, objects, announced] {
      SpaceUser worker(world, pool);
      for (int i = 0; i < 8; ++i) objects->push_back(*worker.create(fmt::format("o{}", i), 512));
      for (const Object& object : *objects) {
        SpaceUser::store(object);
        worker.arena->publish_stores(object);
        ++*announced;
      }
      wait_until(world, "the end", [&] { return *announced == 0; });
    });
    world.spawn(1, [&world, &pool, objects, announced] {
      SpaceUser worker(world, pool);
      for (std::size_t i = 0; i < 8; ++i) {
        world.until([&] { return *announced > i; });
        Object& mine = (*objects)[i];
        mine.data = worker.pool->base() + mine.offset;
        std::vector<std::byte> seen(mine.bytes);
        worker.pool->memory().observe_bulk(seen.data(), mine.data, seen.size());
        world.require(
            std::all_of(seen.begin(), seen.end(), [](auto b) { return b == std::byte{0x11}; }),
            "not sent on");
        worker.publish(mine);
      }
      world.sleep(5'000'000);
      for (const Object& object : *objects)
        worker.require_whole(object, "stored where all was sent on");
      *announced = 0;
    });
  };
  return scenario;
}

TEST(Quarantine, WhatWasSentOnIsThereAtOnce) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(sent_on(pool), 40));
}

TEST(Quarantine, JobsAfterKilledJobs) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(jobs_after_jobs(pool, 4), 40));
}

}  // namespace
}  // namespace penstock::sim
