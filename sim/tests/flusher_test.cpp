// One process of a node flushes for the whole node: which lines the others touch, and which process
// goes on when it stops or ends.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "arena/flusher.hpp"
#include "arena/formatting.hpp"
#include "pool/flush_table.hpp"
#include "pool/reclaim.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/small_pool.hpp"

namespace penstock::sim {
namespace {

enum class Loss : std::uint8_t { killed, stopped, leaves };

struct Mates {
  std::map<std::uint64_t, Process*> by_token;
  bool end = false;
  std::uint64_t leaver = 0;
  std::uint32_t number = 0;  ///< number of their node in the pool
};

/// Processes that stay on a node; one of them may be asked to leave.
void spawn_mates(World& world, const SimulatedPool& pool, const std::shared_ptr<Mates>& mates,
                 std::uint32_t node, int count) {
  for (int i = 0; i < count; ++i) {
    world.spawn(node, [&world, &pool, mates] {
      SpaceUser worker(world, pool, "stays");
      const std::uint64_t token = worker.pool->token();
      mates->by_token[token] = &world.self();
      mates->number = worker.pool->node();
      wait_until(world, "end", [&] { return mates->end || mates->leaver == token; });
    });
  }
}

/// The leader leaves while it flushes, or about then. Two leaders at the same time may have torn
/// the line, so that it names none when they are done.
void lose_the_leader(World& world, SpaceUser& worker, Mates& mates, Loss loss) {
  const auto& flushes = worker.pool->reclaim().flushes();
  std::uint64_t leader = 0;
  for (int looks = 0; leader == 0; ++looks) {
    world.require(looks < 200'000, "nobody leads");
    const auto flush = flushes.flush(mates.number);
    leader = flush.leader;
    if (leader == 0 && flush.ticks != 0) return;
    world.sleep(3'000);  // flushing takes longer
  }
  world.require(mates.by_token.count(leader) != 0, "the leader belongs to another node");
  if (loss == Loss::killed) world.kill(*mates.by_token[leader]);
  if (loss == Loss::stopped) mates.by_token[leader]->stopped = true;
  if (loss == Loss::leaves) mates.leaver = leader;
}

/// All of the space belongs to the next owner in the end, and stays unchanged.
Scenario leader_is_lost(const SmallPool& pool, Loss loss) {
  constexpr const char* names[] = {"killed", "stopped", "leaves"};
  Scenario scenario =
      case_of(pool, fmt::format("the flushing process is lost, {}", names[static_cast<int>(loss)]));
  scenario.body = [&pool, loss](World& world) {
    auto mates = std::make_shared<Mates>();
    auto stored = std::make_shared<bool>(false);
    Process& mortal = world.spawn(1, [&world, &pool, stored] {
      SpaceUser worker(world, pool, "m");
      const auto made = worker.create("m", 30000);
      SpaceUser::store(*made);
      *stored = true;
      wait_for_death(world);
    });
    spawn_mates(world, pool, mates, 1, 3);
    world.spawn(2, [&world, &pool, loss, mates, stored, &mortal] {
      SpaceUser worker(world, pool, "two");
      wait_until(world, "stored", [&] { return *stored && mates->by_token.size() == 3; });
      world.kill(mortal);
      reclaim_dead(world, worker, "m");
      lose_the_leader(world, worker, *mates, loss);
      const auto big = worker.create("big", 40000);
      world.require(big.has_value(), "nobody else flushed");
      worker.publish(*big);
      for (const auto& [token, mate] : mates->by_token) mate->stopped = false;
      world.sleep(300'000'000);
      check(world, worker, {*big});
      mates->end = true;
    });
  };
  return scenario;
}
TEST(Flusher, AnotherGoesOnWhereOneWasKilled) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(leader_is_lost(pool, Loss::killed), 60));
}
TEST(Flusher, AnotherGoesOnWhereOneWasStopped) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(leader_is_lost(pool, Loss::stopped), 60));
}
TEST(Flusher, AnotherGoesOnWhereOneHasLeft) {
  const SmallPool pool;
  expect_held("quarantine", "random schedules", explore(leader_is_lost(pool, Loss::leaves), 30));
}

std::uint64_t lines_read(const Mates& mates) {
  std::uint64_t lines = 0;
  for (const auto& [token, mate] : mates.by_token)
    for (const auto& thread : mate->threads) lines += thread->core->device_reads();
  return lines;
}

/// Objects that are older than a death are destroyed one after the other.
Scenario long_quarantine(const SimulatedPool& pool) {
  constexpr int objects = 12, mates_there = 8;
  constexpr std::uint64_t bytes = 40'000;
  Scenario scenario = pool.scenario("quarantine, one flushes for a node", nodes);
  scenario.max_steps = 8'000'000;
  scenario.swarm = false;
  scenario.body = [&pool](World& world) {
    auto mates = std::make_shared<Mates>();
    spawn_mates(world, pool, mates, 1, mates_there);
    Process& mortal = world.spawn(1, [&world, &pool] {
      const SpaceUser worker(world, pool, "m");
      wait_for_death(world);
    });
    world.spawn(2, [&world, &pool, mates, &mortal] {
      SpaceUser worker(world, pool, "two");
      wait_until(world, "mates", [&] { return mates->by_token.size() == mates_there; });
      std::vector<Object> made;
      for (int i = 0; i < objects; ++i) made.push_back(*worker.create(fmt::format("{}", i), bytes));
      world.sleep(50'000'000);
      world.kill(mortal);
      reclaim_dead(world, worker, "m");
      world.sleep(1'000'000'000);
      const std::uint64_t before = lines_read(*mates);
      for (const Object& object : made) {
        worker.send_on_and_destroy(object);
        world.sleep(100'000'000);
      }
      wait_until(world, "all to be flushed", [&] {
        (void)worker.arena->collect();
        return worker.arena->stats().bytes_quarantined == 0;
      });
      const std::uint64_t all = lines_read(*mates) - before;
      constexpr std::uint64_t needed = objects * (bytes / line_bytes);
      world.require(all >= needed, "the extents were not flushed");
      world.require(all < 2 * needed,
                    fmt::format("{} lines were read where {} are flushed", all, needed));
      mates->end = true;
    });
  };
  return scenario;
}
TEST(Flusher, TheOthersOfANodeTouchFewLines) {
  SimulatedPool pool({.max_processes = 24, .max_nodes = nodes + 3});
  pool.format_arena();
  expect_held("quarantine", "random schedules", explore(long_quarantine(pool), 10));
}

Result<Object> create_uncleared(SpaceUser& user, const char* name, std::uint64_t bytes) {
  return user.arena->create(name, bytes, {.lifetime = Lifetime::process, .zero = false});
}

/// One thread of a process begins at its heartbeat, and another one finishes: lines that the first
/// has invalidated are at the device before the record says so.
Scenario threads_flush(const SmallPool& pool, std::uint64_t bytes) {
  Scenario scenario = with_lasting_copies(case_of(pool, "threads flush for a node"));
  scenario.faults.op_ns = 1'000'000;  // so that a heartbeat's step ends after its first part
  scenario.body = [&pool, bytes](World& world) {
    auto phase = std::make_shared<int>(0);
    Process& mortal = world.spawn(1, [&world, &pool, phase, bytes] {
      SpaceUser worker(world, pool, "m");
      SpaceUser::store(*create_uncleared(worker, "m", bytes));
      *phase = 1;
      wait_for_death(world);
    });
    world.spawn(1, [&world, &pool, phase] {
      const auto attached = pool.attach(world);  // without an arena, which would flush by itself
      await(world, *phase, 2);
      const arena::Region region(*attached);
      const pool::Info& info = attached->info();
      const auto formatted =
          **arena::read_format(region, {info.id, info.arena_offset, info.arena_bytes});
      arena::Flusher flusher(*attached, region, formatted.geometry, formatted.key);
      std::thread([&] { flusher.step(); }).join();
      world.require(attached->reclaim().flushes().flushed(attached->node()) == 0,
                    "one step flushed everything");
      std::thread([&] { flusher.finish(); }).join();
      *phase = 3;
      await(world, *phase, 4);
    });
    world.spawn(2, [&world, &pool, phase, bytes, &mortal] {
      SpaceUser worker(world, pool, "two");
      await(world, *phase, 1);
      world.kill(mortal);
      reclaim_dead(world, worker, "m");
      *phase = 2;
      await(world, *phase, 3);
      const auto next = create_uncleared(worker, "next", bytes);
      world.require(next.has_value(), "the extents were not flushed");
      worker.publish(*next);
      check(world, worker, {*next});
      *phase = 4;
    });
  };
  return scenario;
}
TEST(Flusher, AnotherThreadContinuesAfterStep) {
  constexpr std::uint64_t parts = 5ull << 18;  // one and a quarter
  const SmallPool pool(parts + (parts >> 2));
  expect_held("quarantine", "random schedules", explore(threads_flush(pool, parts), 2));
}

}  // namespace
}  // namespace penstock::sim
