// Processes that are stopped for longer than a lease and go on: a process declares no other dead
// because it was stopped itself, and one that was declared dead ends before it touches anything
// shared. Also heartbeats that are read rarely.
#include <gtest/gtest.h>

#include "pool/lease.hpp"
#include "pool/members.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim::suspended_test {
namespace {

/// Fetched copies stay until the node drops them itself; an invalidation does so about half of the
/// time.
FaultModel keeping_old_copies() {
  FaultModel faults;
  faults.evict = 0;
  faults.prefetch = 0;
  faults.drop_early = 500;
  return faults;
}

/// Two processes on two nodes, by number, and the work of each when it is attached.
struct Pair {
  std::uint64_t tokens[2] = {};
  bool done = false;
  bool met() const { return tokens[0] != 0 && tokens[1] != 0; }
};

std::unique_ptr<pool::Pool> attach_to(World& world, const SimulatedPool& simulated, Pair& pair) {
  auto pool = simulated.attach(world);
  pair.tokens[world.self().number] = pool->token();
  wait_until(world, "the other", [&] { return pair.met(); });
  return pool;
}

// ---- both stopped ------------------------------------------------------------------------------

void look_on(World& world, const SimulatedPool& simulated, Pair& pair) {
  const auto pool = attach_to(world, simulated, pair);
  const std::uint64_t other = pair.tokens[1 - world.self().number];
  while (!pair.done) {
    const bool alive = pool->alive(other);
    world.require(alive, "a process that was stopped at the same time is taken for dead");
    world.sleep(simulated.lease_ns(world) / 20);
  }
}

TEST(Suspended, ProcessesStoppedTogetherBothLive) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, two are stopped for leases, and go on", 2);
  scenario.faults.max_delay = 10;  // when all sleep, a delayed heartbeat is late by several leases
  scenario.body = [&pool](World& world) {
    auto pair = std::make_shared<Pair>();
    for (std::uint32_t node = 0; node < 2; ++node)
      world.spawn(node, [&world, &pool, pair] { look_on(world, pool, *pair); });
    world.spawn(0, [&world, &pool, pair] {
      const std::uint64_t lease_ns = pool.lease_ns(world);
      wait_until(world, "both", [&] { return pair->met(); });
      for (int times = 0; times < 4; ++times) {
        world.sleep(world.random() % lease_ns);
        const auto& both = world.processes();
        both[0]->stopped = both[1]->stopped = true;
        world.sleep(lease_ns + world.random() % (8 * lease_ns));
        const std::size_t first = world.random() % 2;
        both[first]->stopped = false;
        world.sleep(world.random() % (lease_ns / 4));
        both[1 - first]->stopped = false;
      }
      world.sleep(2 * lease_ns);
      for (int number = 0; number < 2; ++number)
        world.require(!world.processes()[static_cast<std::size_t>(number)]->dead, "one has ended");
      pair->done = true;
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 60));
}

// ---- one stopped -------------------------------------------------------------------------------

/// Shared by both sides of a verdict.
struct Judged {
  Pair pair;
  bool given_up = false;
  bool busy = false;  ///< the late one uses things that may belong to others by now
};

/// Process 0 looks, in time; returns false when it has declared the other dead.
bool look(const pool::Pool& mine, Judged& judged) {
  if (!mine.alive(judged.pair.tokens[1])) judged.given_up = true;
  return !judged.given_up;
}

/// Stopped for about a lease, so that it goes on just when it may be declared dead.
void stop_for_about_a_lease(World& world, const pool::Pool& mine, std::uint64_t lease_ns,
                            Judged& judged) {
  Process& late = *world.processes()[1];
  world.sleep(world.random() % lease_ns);
  world.until([&] { return !judged.busy || late.dead; });
  late.stopped = true;
  const std::uint64_t until = world.now_ns() + lease_ns - lease_ns / 8;
  while (world.now_ns() < until) {
    look(mine, judged);
    world.sleep(lease_ns / 20);
  }
  world.sleep(world.random() % (lease_ns / 4));
  late.stopped = false;
  look(mine, judged);
}

/// Stopped for a lease to the microsecond: it goes on while the verdict is written.
void stop_for_a_lease(World& world, const pool::Pool& mine, std::uint64_t lease_ns,
                      Judged& judged) {
  constexpr std::uint64_t about_ns = 1500;  // some ten operations of each
  Process& late = *world.processes()[1];
  world.sleep(lease_ns / 4);  // it beats meanwhile
  world.until([&] { return !judged.busy || late.dead; });
  late.stopped = true;
  world.sleep(1'000'000);
  const std::uint64_t since = world.now_ns();
  look(mine, judged);
  while (world.now_ns() < since + lease_ns - lease_ns / 10) {
    look(mine, judged);
    world.sleep(lease_ns / 20);
  }
  world.sleep(since + lease_ns - about_ns - world.now_ns());
  const std::uint64_t goes_on = world.now_ns() + world.random() % (2 * about_ns);
  while (world.now_ns() < goes_on && look(mine, judged)) {
  }
  late.stopped = false;
  for (int looks = 0; looks < 5 && look(mine, judged); ++looks) {
  }
}

using Stop = void(World&, const pool::Pool&, std::uint64_t, Judged&);

Scenario one_is_late(const SimulatedPool& pool, Stop* stop, const std::string& name) {
  Scenario scenario = pool.scenario("pool, one is stopped for " + name, 2);
  scenario.faults.deliver = 60;
  scenario.faults.max_delay = 60;
  scenario.body = [&pool, stop](World& world) {
    auto judged = std::make_shared<Judged>();
    world.spawn(0, [&world, &pool, judged, stop] {
      const auto attached = attach_to(world, pool, judged->pair);
      Process& late = *world.processes()[1];
      late.may_exit = true;
      for (int times = 0; times < 6 && !judged->given_up && !late.dead; ++times)
        stop(world, *attached, pool.lease_ns(world), *judged);
      judged->pair.done = !judged->given_up;
      wait_until(world, "the late one to leave or to end", [&] { return gone(late); });
      world.require(!judged->given_up || late.exit_status == pool::declared_dead_status,
                    "it was declared dead, but did not notice");
    });
    world.spawn(1, [&world, &pool, judged] {
      const auto attached = attach_to(world, pool, judged->pair);
      while (!judged->pair.done) {
        judged->busy = true;  // stopped within that, it would use things that it had confirmed
        attached->confirm();
        for (int uses = 0; uses < 20; ++uses) {
          world.require(!judged->given_up, "it goes on although it was declared dead");
          std::uint64_t line[8];
          attached->memory().observe_line(line, attached->base());
        }
        judged->busy = false;
        world.sleep(pool.lease_ns(world) / 100);
      }
    });
  };
  return scenario;
}

TEST(Suspended, DeclaredDeadProcessExitsFirst) {
  const SimulatedPool pool;
  expect_held("pool", "random schedules",
              explore(one_is_late(pool, stop_for_about_a_lease, "about a lease"), 200));
  Scenario exact = one_is_late(pool, stop_for_a_lease, "a lease exactly");
  exact.swarm = false;
  exact.faults.deliver = 5;
  exact.faults.max_delay = 500;
  exact.faults.switching = 300;
  expect_held("pool", "random schedules", explore(exact, 2500));
}

struct Section {
  Process* holder = nullptr;
  bool storing = false;  ///< between a confirm and the store that it protects: the known window
};

void count_or_end(World& world, const SimulatedPool& simulated, Section& section, Pair& pair) {
  const auto pool = attach_to(world, simulated, pair);
  std::byte* counter = pool->base() + pool->info().arena_offset;
  for (int round = 0; round < 12; ++round) {
    const auto guard = pool->lock();
    world.require(guard.has_value(), guard ? "" : guard.error().message);
    Process* before = section.holder;
    world.require(before == nullptr || gone(*before) || before->stopped || before->exit_status != 0,
                  "another took the lock of a process that goes on");
    section.holder = &world.self();
    const std::uint64_t value = pool->memory().observe_word(counter);
    pool->confirm();
    world.require(section.holder == &world.self(), "two processes go on under the lock");
    section.storing = true;
    pool->memory().publish_word(counter, value + 1);
    section.storing = false;
    if (section.holder == &world.self()) section.holder = nullptr;
  }
  wait_until(world, "the other", [&] { return pair.done; });
}

/// Process 1 is stopped under the lock, or while it waits for it.
TEST(Suspended, SkippedLockHolderStoresNothing) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, a holder of the lock is stopped for leases", 2);
  scenario.faults.max_delay = 10;
  scenario.body = [&pool](World& world) {
    auto pair = std::make_shared<Pair>();
    auto section = std::make_shared<Section>();
    for (std::uint32_t node = 0; node < 2; ++node)
      world.spawn(node,
                  [&world, &pool, pair, section] { count_or_end(world, pool, *section, *pair); });
    world.spawn(0, [&world, &pool, pair, section] {
      Process& late = *world.processes()[1];
      late.may_exit = true;
      const std::uint64_t lease_ns = pool.lease_ns(world);
      wait_until(world, "both", [&] { return pair->met(); });
      for (std::uint64_t turns = world.random() % 60; turns > 0; --turns) world.yield();
      for (int tries = 0; section->storing && tries < 1000; ++tries) world.yield();
      late.stopped = !section->storing;
      world.sleep(lease_ns + world.random() % (2 * lease_ns));
      late.stopped = false;
      world.sleep(2 * lease_ns);
      pair->done = true;
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 200));
}

// ---- rare looks ---------------------------------------------------------------------------------

TEST(Suspended, SeesRarelyCheckedHeartbeatMove) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, looks that are more than a lease apart", 2);
  scenario.faults = keeping_old_copies();
  scenario.swarm = false;
  scenario.body = [&pool](World& world) {
    auto pair = std::make_shared<Pair>();
    world.spawn(0, [&world, &pool, pair] {
      const auto attached = attach_to(world, pool, *pair);
      for (int looks = 0; looks < 8; ++looks) {
        const bool alive = attached->alive(pair->tokens[1]);
        world.require(alive, "a living process is taken for dead");
        world.sleep(pool.lease_ns(world) * 3 / 2);
      }
      pair->done = true;
    });
    world.spawn(1, [&world, &pool, pair] {
      const auto attached = attach_to(world, pool, *pair);
      wait_until(world, "the onlooker", [&] { return pair->done; });
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 20));
}

/// The kernel is only asked about processes of its own host, not about one of another host that has
/// the slot now.
TEST(Suspended, JudgesReusedSlotOfOtherHostAnew) {
  const SimulatedPool pool({.max_processes = 2});
  Scenario scenario = pool.scenario("pool, a slot goes to a process of another host", 2);
  scenario.faults = keeping_old_copies();
  scenario.swarm = false;
  scenario.body = [&pool](World& world) {
    auto token = std::make_shared<std::uint64_t>(0);
    auto seen = std::make_shared<int>(0);
    world.spawn(0, [&world, &pool, token, seen] {
      const auto attached = pool.attach(world);
      for (int owner = 1; owner <= 4; ++owner) {
        wait_until(world, "an owner", [&] { return *token != 0; });
        const bool alive = attached->alive(*token);
        world.require(alive, "a living process is taken for dead");
        *token = 0;
        *seen = owner;
      }
    });
    // Hosts of the processes: the onlooker's own and another, in turn.
    for (std::uint32_t number = 1; number <= 4; ++number)
      world.spawn(1 - number % 2, [&world, &pool, token, seen, number] {
        wait_until(world, "its turn", [&] {
          return *seen + 1 == static_cast<int>(number) &&
                 (number == 1 || gone(*world.processes()[number - 1]));
        });
        const auto attached = pool.attach(world);
        *token = attached->token();
        wait_until(world, "the onlooker", [&] { return *seen == static_cast<int>(number); });
      });
  };
  expect_held("pool", "random schedules", explore(scenario, 40));
}

/// A leaving process does not vanish meanwhile: a line of which a read may see only a part is read
/// again until it is whole.
TEST(Suspended, OneThatLeavesIsListedAllTheTime) {
  const SimulatedPool pool({.max_processes = 2});
  Scenario scenario = pool.scenario("pool, processes leave while they are listed", 2);
  scenario.faults = keeping_old_copies();
  scenario.faults.drop_early = 0;
  scenario.faults.tear = 900;
  scenario.faults.deliver = 50;
  scenario.faults.max_delay = 60;
  scenario.swarm = false;
  scenario.body = [&pool](World& world) {
    auto token = std::make_shared<std::uint64_t>(0);
    auto left = std::make_shared<int>(0);
    constexpr int rounds = 16;
    world.spawn(0, [&world, &pool, token, left] {
      const auto attached = pool.attach(world);
      while (*left < rounds) {
        const std::uint64_t there = *token;
        const auto records = attached->members().processes();
        const bool listed = std::any_of(records.begin(), records.end(), [&](const auto& record) {
          return record.token() == there;
        });
        // Only while no other process has taken its slot.
        world.require(there == 0 || listed || *token != there, "the owner of a slot is not listed");
        world.yield();
      }
    });
    world.spawn(1, [&world, &pool, token, left] {
      wait_until(world, "the onlooker", [&] { return world.processes()[0]->operations > 200; });
      for (; *left < rounds; ++*left) {
        auto attached = pool.attach(world);
        *token = attached->token();
        world.sleep(1'000'000);
        attached.reset();
        for (int i = 0; i < 40; ++i) world.yield();  // a sleep would send its last line at once
        *token = 0;
      }
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 300));
}

/// The attached process has read all entries of the node table, and found the later ones free.
TEST(Suspended, ANodeThatJoinsLaterIsSeen) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, a node joins later", 2);
  scenario.faults = keeping_old_copies();
  scenario.swarm = false;
  scenario.body = [&pool](World& world) {
    auto first = std::make_shared<bool>(false);
    auto token = std::make_shared<std::uint64_t>(0);
    auto seen = std::make_shared<bool>(false);
    world.spawn(0, [&world, &pool, first, token, seen] {
      const auto attached = pool.attach(world);
      *first = true;
      wait_until(world, "the other", [&] { return *token != 0; });
      for (const pool::ProcessRecord& record : attached->members().processes())
        world.require(record.slot == attached->slot() || record.emulated_node == 5,
                      "the process is shown on no emulated node");
      *seen = true;
    });
    world.spawn(1, [&world, &pool, first, token, seen] {
      wait_until(world, "the first", [&] { return *first; });
      const auto attached = pool.attach(world, {.emulated_node = 5});
      *token = attached->token();
      wait_until(world, "the first", [&] { return *seen; });
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 100));
}

/// One look after the end of a process shows its last statistics, whatever was seen before.
TEST(Suspended, FirstLookSeesLastStatistics) {
  const SimulatedPool pool;
  Scenario scenario = pool.scenario("pool, statistics that are looked at twice", 2);
  scenario.faults = keeping_old_copies();
  scenario.swarm = false;
  scenario.body = [&pool](World& world) {
    auto seen = std::make_shared<int>(0);
    auto said = std::make_shared<int>(0);
    constexpr int rounds = 6;
    world.spawn(0, [&world, &pool, seen, said] {
      const auto attached = pool.attach(world);
      for (int round = 1; round <= rounds; ++round) {
        attached->publish_stats({.messages_sent = static_cast<std::uint64_t>(round)});
        *said = round;
        wait_until(world, "a look", [&] { return *seen == round; });
      }
    });
    world.spawn(1, [&world, &pool, seen, said] {
      const auto attached = pool.attach(world);
      for (int round = 1; round <= rounds; ++round) {
        wait_until(world, "statistics", [&] { return *said == round; });
        for (const pool::ProcessRecord& record : attached->members().processes())
          world.require(record.slot == attached->slot() ||
                            record.messages_sent == static_cast<std::uint64_t>(round),
                        "the statistics are older than before");
        *seen = round;
      }
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 20));
}

}  // namespace
}  // namespace penstock::sim::suspended_test
