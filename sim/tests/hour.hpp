// A process, alone or with all others of its node, is stopped for an hour in the middle of its
// work, and goes on: by then others own all that it had.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "pool/lease.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/stops.hpp"

namespace penstock::sim {

/// As by default: heartbeats are rare enough that an hour has few steps.
inline constexpr std::uint32_t usual_lease_ms = 10'000;

enum class Stopped { alone, with_its_node };
inline const char* text_of(Stopped who) {
  return who == Stopped::alone ? "alone" : "with its node";
}

/// Facts about it outside the pool.
struct Hour {
  Process* late = nullptr;
  bool begun = false;     ///< it is stopped
  bool over = false;      ///< it has gone on
  bool taken = false;     ///< others have taken what they can: it may go on
  bool given_up = false;  ///< it must not complete its work
  bool over_or_gone() const { return over || gone(*late); }
  /// Ranks that talk with it, or are stopped with it, may get the error of a death.
  bool may_be_missed() const { return begun || late->dead; }
};

/// Spawns a process that stops it when it reaches Process::stops_at: with the other processes of
/// its node at that moment, if `who` says so. `meanwhile`: waits until others have taken what they
/// can, after an hour.
inline void spawn_clock(World& world, const std::shared_ptr<Hour>& hour, Stopped who) {
  world.spawn(1, [&world, hour, who] {
    Process& late = *hour->late;
    wait_until(world, "it to be stopped", [&] { return late.stopped || gone(late); });
    const std::uint32_t self = world.self().number;
    const auto each_of_its_node = [&](const std::function<void(Process&)>& act) {
      for (const auto& process : world.processes())
        if (process->node == late.node && process->number != self) act(*process);
    };
    if (late.stopped && who == Stopped::with_its_node)
      each_of_its_node([](Process& process) { process.stopped = true; });
    // To be stopped they entered their kernel, where no store stays in a buffer. Their next
    // operation may be a store.
    each_of_its_node([](Process& process) {
      for (const auto& thread : process.threads)
        if (process.stopped) thread->core->drain();
    });
    hour->begun = late.stopped;
    if (late.stopped) world.sleep(an_hour_ns);
    while (!hour->taken) world.sleep(100'000'000);  // each may wait for the late one for a lease
    // one after the other: any number of others may have run in between
    each_of_its_node([&](Process& process) {
      process.stopped = false;
      world.sleep(world.random() % 2'000'000);
    });
    hour->over = true;
  });
}

/// The victim is stopped at one of its first `operations`, with its node: others would wait for one
/// that is stopped alone beside them.
inline Scenario with_an_hour(Scenario scenario, std::uint64_t operations) {
  scenario.name += ", stopped for an hour";
  scenario.max_steps = 20'000'000;
  scenario.body = [body = scenario.body, operations](World& world) {
    body(world);
    const auto hour = std::make_shared<Hour>();
    hour->late = world.victim();
    hour->late->may_exit = true;
    hour->taken = true;
    for (const auto& process : world.processes())
      process->may_exit = process->may_exit || process->node == hour->late->node;
    stop_within(world, *hour->late, operations);
    spawn_clock(world, hour, Stopped::with_its_node);
  };
  return scenario;
}

/// It has ended, with an error if it was declared dead. Others go on looking until then.
inline void await_its_end(World& world, const Hour& hour) {
  wait_until(world, "it to end", [&] { return hour.over && gone(*hour.late); });
  if (hour.given_up)
    world.require(hour.late->exit_status == pool::declared_dead_status,
                  "it was declared dead, but completed its work");
  world.require(!hour.late->dead || hour.late->exit_status == pool::declared_dead_status,
                fmt::format("it ended with status {}", hour.late->exit_status));
}

}  // namespace penstock::sim
