// Many participants wait for a lock in line: the number of lines that they read; and dead
// participants, or overwritten lines, keep none waiting and let no two in.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "base/pace.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lock_lines.hpp"
#include "sim/world/explore.hpp"
#include "sync/sync.hpp"

namespace penstock::sim::lock_line_test {
namespace {

constexpr std::uint64_t ns_a_s = 1'000'000'000, timeout_ns = 60 * ns_a_s;

std::uint64_t number_of(World& world, std::uint64_t participant) {
  return world.memory().observe_word(line(world, participant) + 8);
}

Scenario line_scenario(const char* name, std::uint32_t participants) {
  Scenario scenario;
  scenario.name = name;
  scenario.nodes = participants;
  scenario.device_bytes = 64 << 10;
  scenario.max_steps = 20'000'000;
  scenario.swarm = false;
  scenario.faults.evict = scenario.faults.prefetch = scenario.faults.tear = 0;
  return scenario;
}

void must(World& world, const Result<void>& acquired) {
  world.require(acquired.has_value(), acquired ? "" : acquired.error().message);
}

/// Many wait in line, each arriving some time after the last: each reads one line a look, and no
/// more lines than a wait may read.
TEST(LockLine, WaiterWatchesFirstInQueue) {
  static constexpr std::uint32_t participants = 24;
  constexpr std::uint64_t ns_a_ms = 1'000'000, held_ms = 200;
  constexpr std::uint64_t looks = held_ms * base::Pace::reads_a_second / 1000;
  Scenario scenario = line_scenario("lock, a long line", participants);
  scenario.body = [](World& world) {
    auto held = std::make_shared<bool>(false);
    for (std::uint32_t self = 0; self < participants; ++self)
      world.spawn(self, [=, &world] {
        const coherence::Memory memory = world.memory();
        sync::Lock lock(memory, line(world, 0), participants, self, world.self().pid,
                        alive_in(world));
        world.sleep((1 + self) * 2 * ns_a_ms);
        const std::uint64_t before = memory.device_reads();
        must(world, lock.acquire(timeout_ns));
        const std::uint64_t lines = memory.device_reads() - before;
        world.require(lines <= 4 * participants + 2 * looks,
                      fmt::format("participant {} read {} lines", self, lines));
        world.require(!*held, "two hold the lock");
        *held = true;
        if (self == 0) world.sleep(held_ms * ns_a_ms);
        *held = false;
        lock.release();
      });
  };
  expect_held("lock", "random schedules", explore(scenario, 3));
}

/// Deaths that show by heartbeats: the first look at a participant starts its clock, which ends a
/// lease later.
struct ByLease {
  World& world;
  std::uint64_t lease_ns;
  std::map<std::uint64_t, std::uint64_t> first_look = {};

  bool alive(std::uint64_t token) {
    if (world.alive(token)) return true;
    const auto [look, fresh] = first_look.try_emplace(token, world.now_ns());
    return world.now_ns() - look->second <= lease_ns;
  }
};

/// One holds the lock, the others wait in line for it, and all are lost at once.
TEST(LockLine, ManyDeadWaitersCostOneLease) {
  static constexpr std::uint32_t dead = 7;
  constexpr std::uint64_t lease_ns = 10 * ns_a_s;
  Scenario scenario = line_scenario("lock, many die in line", dead + 1);
  scenario.max_steps = 200'000'000;
  scenario.body = [](World& world) {
    auto queued = std::make_shared<std::uint32_t>(0);
    for (std::uint32_t self = 0; self < dead; ++self)
      world.spawn(self, [=, &world] {
        sync::Lock lock(world.memory(), line(world, 0), dead + 1, self, world.self().pid,
                        [](std::uint64_t) { return true; });
        world.until([=] { return *queued == self; });
        (void)lock.acquire(10 * timeout_ns, sync::Hold::exclusive,
                           [queued, counted = false]() mutable {
                             if (!std::exchange(counted, true)) ++*queued;
                           });
        ++*queued;  // the first one has it at once
        for (;;) world.sleep(ns_a_s);
      });
    world.spawn(dead, [=, &world] {
      world.until([=] { return *queued == dead; });
      auto lives = std::make_shared<ByLease>(ByLease{world, lease_ns});
      sync::Lock lock(world.memory(), line(world, 0), dead + 1, dead, world.self().pid,
                      [lives](std::uint64_t token) { return lives->alive(token); });
      for (const auto& process : world.processes())
        if (process->pid != world.self().pid) world.kill(*process);
      const std::uint64_t begun = world.now_ns();
      must(world, lock.acquire(timeout_ns));
      world.require(world.now_ns() - begun < lease_ns + lease_ns / 10,
                    fmt::format("{} ns", world.now_ns() - begun));
    });
  };
  expect_held("lock", "random schedules", explore(scenario, 2));
}

/// Participant 2 makes way for a sharer, and draws another number later. Meanwhile the line of
/// participant 0 was overwritten, and is passed over; then a process comes that acts for it.
struct MadeWay {
  bool shared = false, asks = false, drawn = false;
  int holders = 0;

  void hold(World& world) {
    world.require(++holders == 1, "two hold the lock");
    world.sleep(ns_a_s);
    --holders;
  }
};

/// `at` runs when the acquirer asks about itself for the `nth` time.
sync::AliveCheck asked_about(World& world, int nth, const std::function<void()>& at) {
  return [&world, nth, at, asked = 0, me = world.self().pid](std::uint64_t token) mutable {
    if (token == me && ++asked == nth) at();
    return world.alive(token);
  };
}

void share_and_damage(World& world, MadeWay& way) {
  sync::Lock lock(world.memory(), line(world, 0), 4, 1, world.self().pid, alive_in(world));
  must(world, lock.acquire(timeout_ns, sync::Hold::shared));
  way.shared = true;
  world.until([&] { return number_of(world, 2) != 0; });
  world.until([&] { return number_of(world, 2) == 0; });
  for (int i = 0; i < 8; ++i) world.memory().publish_word(line(world, 0) + 8 * i, i == 0 ? 0 : 77);
  world.memory().full_fence();
  lock.release();
}

TEST(LockLine, WhoDrawsAnotherNumberForgetsWhatItSaw) {
  Scenario scenario = line_scenario("lock, another number", 4);
  scenario.max_steps = 200'000'000;
  scenario.body = [](World& world) {
    auto way = std::make_shared<MadeWay>();
    world.spawn(1, [=, &world] { share_and_damage(world, *way); });
    world.spawn(2, [=, &world] {
      const auto fourth = [=, &world] {  // before it publishes its second number
        way->asks = true;
        world.until([way] { return way->drawn; });
      };
      sync::Lock lock(world.memory(), line(world, 0), 4, 2, world.self().pid,
                      asked_about(world, 4, fourth));
      world.until([way] { return way->shared; });
      must(world, lock.acquire(timeout_ns));
      way->hold(world);
      lock.release();
    });
    world.spawn(3, [=, &world] {  // so that participant 2 finds the lock in use then, too
      sync::Lock lock(world.memory(), line(world, 0), 4, 3, world.self().pid, alive_in(world));
      world.until([&] { return number_of(world, 2) != 0; });
      must(world, lock.acquire(timeout_ns));
      way->hold(world);
      lock.release();
    });
    world.spawn(0, [=, &world] {
      const auto second = [=, &world] {  // it has drawn a number, and is slow
        way->drawn = true;
        world.sleep(ns_a_s * 3 / 2);
      };
      world.until([way] { return way->asks; });
      sync::Lock lock(world.memory(), line(world, 0), 4, 0, world.self().pid,
                      asked_about(world, 2, second));
      must(world, lock.acquire(timeout_ns));
      way->hold(world);
      lock.release();
    });
  };
  expect_held("lock", "random schedules", explore(scenario, 3));
}

}  // namespace
}  // namespace penstock::sim::lock_line_test
