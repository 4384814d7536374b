// Attaching, leaving, dying and being reaped, with the unchanged sources of the pool.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "pool/members.hpp"
#include "pool/reclaim.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim::pool_test {
namespace {

/// An onlooker's knowledge of the processes of a world, by their numbers.
struct Members {
  struct Member {
    std::uint64_t token = 0;
    std::uint32_t slot = 0, node = 0;
    std::uint64_t generation = 0;
    bool attached = false;  ///< false once it begins to leave
  };
  std::map<std::uint32_t, Member> of;
  std::set<std::uint64_t> tokens;

  std::size_t attached(const World& world) const {
    std::size_t count = 0;
    for (const auto& [number, member] : of) {
      count += member.attached && !world.processes()[number]->dead;
    }
    return count;
  }
};

/// Enters the running process, if no other has what it was given.
void enter(World& world, Members& members, const pool::Pool& pool) {
  const Members::Member mine{pool.token(), pool.slot(), pool.node(), pool.generation(), true};
  world.require(members.tokens.insert(mine.token).second, "two processes have the same token");
  for (const auto& [number, other] : members.of) {
    const Process& process = *world.processes()[number];
    const bool same_node = process.node == world.self().node;
    world.require(same_node == (other.node == mine.node), "a node shares its number, or has two");
    if (!other.attached || process.dead) continue;
    world.require(other.slot != mine.slot, "two processes have the same slot");
    const std::uint64_t token = other.token;  // it may leave, and come again, while it is checked
    const bool alive = pool.alive(token);
    world.require(alive || gone(process) || !other.attached || other.token != token,
                  fmt::format("process {} is taken for dead", number));
  }
  members.of[world.self().number] = mine;
}

/// Every attached process in the table is whole and matches its identity.
void check_records(World& world, const Members& members, const pool::Pool& pool) {
  const auto records = pool.members().processes();
  for (const pool::ProcessRecord& record : records) {
    const Process* process = world.process_of(static_cast<std::uint64_t>(record.pid));
    world.require(process != nullptr, "a record of nobody");
    if (!record.attached) continue;
    const auto now = pool.members().processes();
    const bool still = std::any_of(now.begin(), now.end(), [&](const auto& later) {
      return later.slot == record.slot && later.generation == record.generation && later.attached;
    });
    if (!still) continue;
    world.require(record.program == fmt::format("process{}", process->number) &&
                      record.host == fmt::format("node{}", process->node) &&
                      record.job == fmt::format("job of {:060}", process->number) &&
                      record.boot_id == pool::format_uuid(world.host(process->node).boot_id) &&
                      record.rank == static_cast<int>(process->number),
                  fmt::format("process {} is shown as {} of {}", process->number, record.program,
                              record.host));
    const auto member = members.of.find(process->number);
    const bool known = member != members.of.end() && member->second.attached && !process->dead &&
                       member->second.slot == record.slot;
    world.require(!known || record.alive, "a living process is shown as dead");
    world.require(!known || record.node == member->second.node,
                  "the process is shown on another node");
  }
}

pool::AttachOptions described(World& world) {
  return {.rank = static_cast<int>(world.self().number),
          .job = fmt::format("job of {:060}", world.self().number)};
}

/// All of the first `count` processes have come, except dead ones.
bool all_came(const World& world, const std::set<std::uint32_t>& came, std::uint32_t count) {
  for (std::uint32_t number = 0; number < count; ++number) {
    if (!world.processes()[number]->dead && came.count(number) == 0) return false;
  }
  return true;
}

/// `count` processes on `nodes` nodes attach `rounds` times, all at once.
Scenario coming_and_going(const SimulatedPool& pool, std::uint32_t nodes, std::uint32_t count,
                          std::size_t rounds) {
  Scenario scenario =
      pool.scenario(fmt::format("pool, {} processes come and go on {} nodes", count, nodes), nodes);
  scenario.faults.max_delay = 10;  // when all sleep, a delayed heartbeat is late by several leases
  scenario.body = [&pool, nodes, count, rounds](World& world) {
    auto members = std::make_shared<Members>();
    auto here = std::make_shared<std::vector<std::set<std::uint32_t>>>(rounds);
    for (std::uint32_t i = 0; i < count; ++i) {
      Process& process = world.spawn(i % nodes, [&world, &pool, members, here, rounds, count] {
        for (std::size_t round = 0; round < rounds; ++round) {
          const auto attached = pool.attach(world, described(world));
          enter(world, *members, *attached);
          check_records(world, *members, *attached);
          (*here)[round].insert(world.self().number);
          wait_until(world, "all to attach",
                     [&] { return all_came(world, (*here)[round], count); });
          members->of[world.self().number].attached = false;
        }
      });
      if (i == 0) world.mark_victim(process);
    }
  };
  return scenario;
}

TEST(Pool, ProcessesGetDistinctSlotsAndTokens) {
  const SimulatedPool pool({.max_processes = 4});
  expect_held("pool", "random schedules", explore(coming_and_going(pool, 2, 4, 2), 100));
  expect_held("pool", "random schedules", explore(coming_and_going(pool, 4, 4, 3), 100));
}

TEST(Pool, DeathWhileAttachingOrLeavingBlocksNobody) {
  const SimulatedPool pool({.max_processes = 5});
  expect_held("pool", "crash points", crash_everywhere(coming_and_going(pool, 2, 4, 2), 120));
  expect_held("pool", "deaths within a line",
              explore(dying_in_a_line(coming_and_going(pool, 2, 4, 2), 60), 100));
}

/// All slots were used once, and all their blocks belong to one node.
class UsedPool : public SimulatedPool {
 public:
  explicit UsedPool(std::uint32_t processes)
      : SimulatedPool({.max_processes = processes, .max_nodes = 2}) {
    once([this, processes](World& world) {
      for (std::uint32_t i = 0; i <= processes; ++i) attach(world);
    });
  }
};

TEST(Pool, NodeTakesUnusedSlotsOfAnother) {
  const UsedPool two_a_block(16), four_a_block(32), one_a_block(6);
  for (const SimulatedPool* pool : {&one_a_block, static_cast<const UsedPool*>(&two_a_block),
                                    static_cast<const UsedPool*>(&four_a_block)}) {
    expect_held("pool", "random schedules", explore(coming_and_going(*pool, 2, 5, 2), 50));
    expect_held("pool", "crash points", crash_everywhere(coming_and_going(*pool, 2, 4, 2), 60));
  }
  expect_held("pool", "deaths within a line",
              explore(dying_in_a_line(coming_and_going(two_a_block, 2, 4, 2), 60), 100));
}

/// More hosts than the table has entries come one after another; one dies anywhere.
TEST(Pool, NumbersOfNodesComeBack) {
  const SimulatedPool pool({.max_processes = 8, .max_nodes = 3});
  Scenario scenario = pool.scenario("pool, more hosts than there are numbers", 7);
  scenario.faults.same_speed = true;
  scenario.body = [&pool](World& world) {
    auto numbers = std::make_shared<std::map<std::uint32_t, std::uint32_t>>();
    for (std::uint32_t host = 0; host < 7; ++host) {
      Process& process = world.spawn(host, [&world, &pool, numbers, host] {
        // Two at a time: each with the one before it.
        wait_until(world, "the host before the last",
                   [&] { return host < 2 || gone(*world.processes()[host - 2]); });
        const auto attached = pool.attach(world);
        for (const auto& [other, number] : *numbers)
          world.require(number != attached->node() || world.processes()[other]->dead,
                        "two hosts have the same number");
        (*numbers)[host] = attached->node();
        {
          const auto guard = attached->lock();
          world.require(guard.has_value(), guard ? "" : guard.error().message);
        }
        wait_until(world, "the next host", [&] {
          return host == 6 || numbers->count(host + 1) != 0 || gone(*world.processes()[host + 1]);
        });
        numbers->erase(host);
      });
      if (host == 1) world.mark_victim(process);
    }
  };
  expect_held("pool", "random schedules", explore(scenario, 60));
  expect_held("pool", "crash points", crash_everywhere(scenario, 120));
}

// ---- reaping -----------------------------------------------------------------------------------

struct Watch {
  Members members;
  std::map<std::uint64_t, int> called;
  Process* mortal = nullptr;
};

void check_alive(World& world, const Members& members, const pool::Pool& pool) {
  for (const auto& [number, member] : members.of) {
    const std::uint64_t token = member.token;  // it may come again while it is checked
    const bool alive = pool.alive(token);
    const Process& process = *world.processes()[number];
    const bool here = member.attached && !process.dead;
    world.require(alive || !here || member.token != token,
                  fmt::format("process {} is taken for dead", number));
  }
}

void leave(World& world, Members& members) {
  members.of[world.self().number].attached = false;
}

bool listed(const pool::Pool& pool, const Process& process) {
  const auto records = pool.members().processes();
  return std::any_of(records.begin(), records.end(), [&](const auto& record) {
    return record.attached && record.pid == static_cast<std::int64_t>(process.pid);
  });
}

/// Runs until the process that may die has left the table.
void reap_until_gone(World& world, const SimulatedPool& simulated, Watch& watch, bool kills) {
  const auto pool = simulated.attach(world);
  enter(world, watch.members, *pool);
  for (;;) {
    if (kills) world.kill(*watch.mortal);
    const auto reaped = pool->reclaim().reap([&](const std::set<std::uint64_t>& tokens) {
      for (const auto& [number, member] : watch.members.of) {
        const bool lives = member.attached && !world.processes()[number]->dead;
        world.require(tokens.count(member.token) == 0 || !lives, "a living process is reaped");
      }
      const bool again = world.victim() != watch.mortal && world.victim()->dead;
      for (const std::uint64_t token : tokens)
        world.require(++watch.called[token] == 1 || again, "a process is reaped twice");
    });
    world.require(reaped.has_value(), reaped ? "" : reaped.error().message);
    check_alive(world, watch.members, *pool);
    if (gone(*watch.mortal) && !listed(*pool, *watch.mortal)) break;
    world.sleep(3'000'000);
  }
  const auto member = watch.members.of.find(watch.mortal->number);
  const bool died_attached =
      member != watch.members.of.end() && member->second.attached && watch.mortal->dead;
  world.require(!died_attached || watch.called.count(member->second.token) != 0,
                "the dead left the table without a report");
  leave(world, watch.members);
}

/// A process attaches, works and leaves, or dies; others reap until it has left the table, while
/// one more attaches.
Scenario reaping(const SimulatedPool& pool, bool reaper_dies) {
  Scenario scenario = pool.scenario(
      fmt::format("pool, reap{}", reaper_dies ? ", and a reaper dies as well" : ""), 3);
  scenario.body = [&pool, reaper_dies](World& world) {
    auto watch = std::make_shared<Watch>();
    Process& mortal = world.spawn(1, [&world, &pool, watch, reaper_dies] {
      const auto attached = pool.attach(world);
      enter(world, watch->members, *attached);
      for (std::uint64_t i = 0; i < 3; ++i) attached->publish_stats({.messages_sent = i});
      if (reaper_dies) wait_until(world, "a death", [&] { return gone(*world.victim()); });
      leave(world, watch->members);
    });
    watch->mortal = &mortal;
    Process& reaper = world.spawn(0, [&world, &pool, watch, reaper_dies] {
      reap_until_gone(world, pool, *watch, reaper_dies);
    });
    world.spawn(1, [&world, &pool, watch] { reap_until_gone(world, pool, *watch, false); });
    world.mark_victim(reaper_dies ? reaper : mortal);
    world.spawn(2, [&world, &pool, watch] {
      wait_until(world, "somebody to die or to end", [&] { return gone(*watch->mortal); });
      const auto attached = pool.attach(world);
      enter(world, watch->members, *attached);
      check_alive(world, watch->members, *attached);
      leave(world, watch->members);
    });
  };
  return scenario;
}

TEST(Pool, ReapsDeadOnceAndLivingNever) {
  const SimulatedPool pool;
  expect_held("pool", "random schedules", explore(reaping(pool, false), 60));
  expect_held("pool", "crash points", crash_everywhere(reaping(pool, false), 120));
}

TEST(Pool, NextReaperFinishesForDeadOne) {
  const SimulatedPool pool;
  expect_held("pool", "crash points", crash_everywhere(reaping(pool, true), 120));
}

/// One process sleeps and is stopped for less than a lease, and goes on: it was never dead.
TEST(Pool, TheSlowAndTheStoppedAreAlive) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, a process is stopped for less than a lease", 2);
  scenario.faults.max_delay = 10;  // when all sleep, a delayed heartbeat is late by several leases
  scenario.body = [&pool](World& world) {
    auto members = std::make_shared<Members>();
    auto done = std::make_shared<bool>(false);
    Process& slow = world.spawn(1, [&world, &pool, members, done] {
      const auto attached = pool.attach(world);
      enter(world, *members, *attached);
      wait_until(world, "the onlooker", [&] { return *done; });
      leave(world, *members);
    });
    world.spawn(0, [&world, &pool, &slow, members, done] {
      const auto attached = pool.attach(world);
      enter(world, *members, *attached);
      wait_until(world, "the other", [&] { return members->attached(world) == 2; });
      const std::uint64_t lease_ns = pool.lease_ns(world);
      for (int part = 0; part < 24; ++part) {
        slow.stopped = part % 8 < 3;
        check_alive(world, *members, *attached);
        const auto reaped = attached->reclaim().reap([](const auto&) {});
        world.require(reaped && *reaped == 0, "a living process is reaped");
        world.sleep(lease_ns / 8);
      }
      slow.stopped = false;
      *done = true;
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 60));
}

// ---- lock --------------------------------------------------------------------------------------

struct Section {
  Process* holder = nullptr;
  std::uint64_t done = 0;  ///< greatest released count
  std::set<std::uint32_t> done_by;
};

void count_under_lock(World& world, const SimulatedPool& simulated, Section& section, int rounds) {
  const auto pool = simulated.attach(world);
  std::byte* counter = pool->base() + pool->info().arena_offset;
  for (int round = 0; round < rounds; ++round) {
    std::uint64_t value = 0;
    {
      const auto guard = pool->lock();
      world.require(guard.has_value(), guard ? "" : guard.error().message);
      world.require(section.holder == nullptr || section.holder->dead, "two hold the lock");
      section.holder = &world.self();
      value = pool->memory().observe_word(counter);
      world.require(value >= section.done, "a count was lost");
      pool->memory().publish_word(counter, value + 1);
      section.holder = nullptr;
    }
    section.done = std::max(section.done, value + 1);
  }
  section.done_by.insert(world.self().number);
  wait_until(world, "all to be done", [&] {
    return all_came(world, section.done_by, static_cast<std::uint32_t>(world.processes().size()));
  });
}

Scenario counting(const SimulatedPool& pool, std::uint32_t processes, int rounds) {
  Scenario scenario = pool.scenario(fmt::format("pool, lock, {} processes", processes), 2);
  scenario.body = [&pool, processes, rounds](World& world) {
    auto section = std::make_shared<Section>();
    for (std::uint32_t i = 0; i < processes; ++i) {
      Process& process = world.spawn(i % 2, [&world, &pool, section, rounds] {
        count_under_lock(world, pool, *section, rounds);
      });
      if (i == 0) world.mark_victim(process);
    }
    world.spawn(1, [&world, &pool, section, rounds] {
      wait_until(world, "a death or an end", [&] {
        return world.victim()->dead || section->done_by.count(world.victim()->number) != 0;
      });
      count_under_lock(world, pool, *section, rounds);
    });
  };
  return scenario;
}

TEST(Pool, LockExcludesWithinAndBetweenNodes) {
  const SimulatedPool pool;
  expect_held("pool", "random schedules", explore(counting(pool, 4, 3), 60));
}

TEST(Pool, LockSurvivesDeathOfProcessAndNode) {
  const SimulatedPool pool;
  expect_held("pool", "crash points", crash_everywhere(counting(pool, 3, 2), 150));
}

/// A process that waits for the lock while it attaches shows life; other waiters do not pass it
/// over.
TEST(Pool, AttachWaitsForLockWithoutLimit) {
  const SimulatedPool pool({.lease_ms = 100});  // two heartbeats
  Scenario scenario = pool.scenario("pool, attaching processes wait for leases", 3);
  scenario.faults.same_speed = true;
  scenario.faults.max_delay = 10;  // when all sleep, a delayed heartbeat is late by several leases
  scenario.body = [&pool](World& world) {
    auto members = std::make_shared<Members>();
    auto here = std::make_shared<std::set<std::uint32_t>>();
    const auto stay = [&world, here] {
      here->insert(world.self().number);
      wait_until(world, "all to attach", [&] { return all_came(world, *here, 3); });
    };
    auto locked = std::make_shared<bool>(false);
    world.spawn(0, [&world, &pool, members, locked, stay] {
      const auto attached = pool.attach(world);
      enter(world, *members, *attached);
      {
        const auto guard = attached->lock();
        world.require(guard.has_value(), guard ? "" : guard.error().message);
        *locked = true;
        world.sleep(3 * pool.lease_ns(world));
      }
      stay();
    });
    for (std::uint32_t node = 1; node <= 2; ++node) {
      world.spawn(node, [&world, &pool, members, locked, stay] {
        wait_until(world, "the lock to be held", [&] { return *locked; });
        const auto attached = pool.attach(world);
        enter(world, *members, *attached);
        stay();
      });
    }
  };
  expect_held("pool", "random schedules", explore(scenario, 40));
}

// ---- a process's description of itself ----------------------------------------------------------

constexpr std::uint64_t last_stats = 12;

std::string activity_number(std::uint64_t i) {
  return std::string(150, static_cast<char>('a' + i));
}

void check_stats(World& world, const pool::ProcessRecord& record, std::uint64_t& latest) {
  const std::uint64_t i = record.messages_sent;
  world.require(record.bytes_sent == 2 * i && record.messages_received == 3 * i &&
                    record.bytes_received == 4 * i,
                "the statistics mix two times");
  // All zeros may be a line that is written at each look.
  world.require(i == 0 || i >= latest, "the statistics are older than before");
  latest = std::max(latest, i);
  constexpr std::size_t part = 56;
  for (std::size_t at = 0; at < record.activity.size(); at += part) {
    const std::string here = record.activity.substr(at, part);
    world.require(here.find_first_not_of(here[0]) == std::string::npos, "a torn activity");
  }
}

TEST(Pool, StatisticsAndActivityAreOfOneTime) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, statistics and activity", 2);
  scenario.body = [&pool](World& world) {
    auto token = std::make_shared<std::uint64_t>(0);
    auto seen = std::make_shared<bool>(false);
    world.spawn(0, [&world, &pool, token, seen] {
      const auto attached = pool.attach(world, described(world));
      *token = attached->token();
      const bool activity_last = world.random() % 2 == 0;
      for (std::uint64_t i = 1; i <= last_stats; ++i) {
        if (activity_last) attached->publish_stats({i, 2 * i, 3 * i, 4 * i});
        attached->publish_activity(activity_number(i));
        if (!activity_last) attached->publish_stats({i, 2 * i, 3 * i, 4 * i});
      }
      wait_until(world, "the reader", [&] { return *seen; });
    });
    world.spawn(1, [&world, &pool, token, seen] {
      const auto attached = pool.attach(world);
      wait_until(world, "the writer", [&] { return *token != 0; });
      std::uint64_t latest = 0;
      bool all = false;
      for (int looks = 0; !all; ++looks) {
        world.require(looks < 2000, "the last statistics never appear");
        world.require(
            attached->describe(*token) == "rank 0 (pid 1000000000 on host node0, node 0)" ||
                attached->describe(*token) == "rank 0 (pid 1000000000 on host node0, node 1)",
            attached->describe(*token));
        for (const pool::ProcessRecord& record : attached->members().processes()) {
          if (record.pid != 1000000000) continue;
          check_stats(world, record, latest);
          all = latest == last_stats && record.activity == activity_number(last_stats);
        }
        world.yield();
      }
      *seen = true;
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 80));
}

}  // namespace
}  // namespace penstock::sim::pool_test
