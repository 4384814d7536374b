// Lock, barrier and doorbell on memory without coherence, and with processes that die at any of
// their operations.
#include <gtest/gtest.h>

#include <memory>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/lock_lines.hpp"
#include "sim/world/explore.hpp"
#include "sync/sync.hpp"

namespace penstock::sim::sync_test {
namespace {

constexpr std::uint64_t timeout_ns = 20'000'000'000;

// ---- lock --------------------------------------------------------------------------------------

/// An onlooker's view of the lock.
struct Section {
  std::uint64_t done = 0;  ///< greatest released count
  Process* holder = nullptr;
  int at_work = 0;  ///< living processes that still want the lock
};

/// Under the lock a counter in the pool is read, and written one higher. Lines 0..: the lock; line
/// 100: the counter.

void count_under_lock(World& world, Section& section, std::uint32_t participants,
                      std::uint32_t self, std::uint64_t rounds) {
  const coherence::Memory memory = world.memory();
  sync::Lock lock(memory, line(world, 0), participants, self, world.self().pid, alive_in(world));
  lock.repair();
  ++section.at_work;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto acquired = lock.acquire(timeout_ns);
    world.require(acquired.has_value(), acquired ? "" : acquired.error().message);
    const bool alone = section.holder == nullptr || section.holder->dead;
    world.require(alone, "two hold the lock");
    section.holder = &world.self();
    const std::uint64_t value = memory.observe_word(line(world, 100));
    world.require(value >= section.done, "a count was lost");
    memory.publish_word(line(world, 100), value + 1);
    section.holder = nullptr;
    lock.release();
    section.done = std::max(section.done, value + 1);
  }
  --section.at_work;
  // No participant loses its turn because it has ended.
  const int dead = world.victim() != nullptr && world.victim()->dead ? 1 : 0;
  for (std::uint32_t i = 0; i < 300'000 / participants && section.at_work > dead; ++i) {
    if (!lock.intact()) lock.repair();
    world.yield();
  }
}

Scenario lock_scenario(std::uint32_t participants, std::uint64_t rounds, bool with_victim) {
  Scenario scenario;
  scenario.name =
      fmt::format("lock, {} participants{}", participants, with_victim ? ", one dies" : "");
  scenario.nodes = participants;
  scenario.device_bytes = 64 << 10;
  scenario.body = [=](World& world) {
    auto section = std::make_shared<Section>();
    for (std::uint32_t self = 0; self < participants; ++self) {
      Process& process = world.spawn(self, [&world, section, participants, self, rounds] {
        count_under_lock(world, *section, participants, self, rounds);
      });
      if (self == 0 && with_victim) world.mark_victim(process);
    }
    // A participant that takes a dead one's place queues like the others.
    if (with_victim) {
      world.spawn(0, [&world, section, participants, rounds] {
        world.until([&world] { return world.victim()->dead || world.victim()->ended; });
        count_under_lock(world, *section, participants, 0, rounds);
      });
    }
  };
  return scenario;
}

TEST(Lock, ExcludesWithoutCoherence) {
  expect_held("lock", "random schedules", explore(lock_scenario(2, 6, false), 200));
  expect_held("lock", "random schedules", explore(lock_scenario(3, 4, false), 200));
  expect_held("lock", "random schedules", explore(lock_scenario(7, 2, false), 60));
}

TEST(Lock, SurvivesTheDeathOfAnyParticipantAnywhere) {
  expect_held("lock", "crash points", crash_everywhere(lock_scenario(3, 3, true), 600));
  expect_held("lock", "crash points", crash_everywhere(lock_scenario(6, 1, true), 300));
}

TEST(Lock, HoldsInEverySmallSchedule) {
  Scenario small = lock_scenario(2, 1, false);
  small.faults.evict = small.faults.prefetch = 0;
  expect_held("lock", "bounded schedules", exhaust(small, 2, 20'000));
}

/// The owner restores words that others wait for; a line without an owner keeps no participant
/// waiting. Tokens are left alone: a participant that loses its token is taken for dead.
TEST(Lock, OverwrittenLinesEndNoWaitWrongly) {
  static constexpr std::uint32_t participants = 4, present = 3;
  Scenario scenario;
  scenario.name = "lock, overwritten";
  scenario.nodes = participants;
  scenario.device_bytes = 64 << 10;
  scenario.body = [](World& world) {
    auto section = std::make_shared<Section>();
    for (std::uint32_t self = 0; self < present; ++self) {
      world.spawn(self, [&world, section, self] {
        count_under_lock(world, *section, participants, self, 6);
      });
    }
    world.spawn(present, [&world] {
      for (int i = 0; i < 12; ++i) {
        const std::uint64_t whose = world.random() % participants;
        const std::uint64_t word = whose == present ? world.random() % 8 : 1 + world.random() % 7;
        const std::uint64_t value = word == 0 ? 0 : world.random();
        world.memory().publish_word(line(world, whose) + 8 * word, value);
        world.memory().store_fence();
        for (std::uint64_t looks = world.random() % 40; looks > 0; --looks) world.yield();
      }
    });
  };
  expect_held("lock", "random schedules", explore(scenario, 200));
}

/// The same for a waiter: it reads again and again, and each read finds what the device holds.
TEST(Lock, RestoresOverwrittenLineWhileWaiting) {
  // One is absent: a look at all the others would drop its own line with theirs.
  static constexpr std::uint32_t participants = 3;
  Scenario scenario;
  scenario.name = "lock, overwritten while one waits";
  scenario.device_bytes = 64 << 10;
  scenario.nodes = 3;
  scenario.swarm = false;
  scenario.faults.evict = 0;
  scenario.faults.prefetch = 0;
  scenario.faults.drop_early = 0;
  scenario.body = [](World& world) {
    auto held = std::make_shared<bool>(false), done = std::make_shared<bool>(false);
    world.spawn(0, [&world, held, done] {
      sync::Lock lock(world.memory(), line(world, 0), participants, 0, world.self().pid,
                      alive_in(world));
      world.require(lock.acquire(timeout_ns).has_value(),
                    "the lock is not free, although no other participant exists");
      *held = true;
      world.until([done] { return *done; });
      lock.release();
    });
    world.spawn(1, [&world, held] {
      world.until([held] { return *held; });
      sync::Lock lock(world.memory(), line(world, 0), participants, 1, world.self().pid,
                      alive_in(world));
      world.require(lock.acquire(timeout_ns).has_value(), "the lock was never free");
      lock.release();
    });
    world.spawn(2, [&world, done] {
      std::byte* const number = line(world, 1) + 8;
      world.until([&] { return world.memory().observe_word(number) != 0; });
      for (std::uint64_t damage = 1000; damage < 1003; ++damage) {
        world.sleep(100'000'000);  // the waiter looks meanwhile
        world.memory().publish_word(number, damage);
        world.memory().store_fence();
        int looks = 0;
        while (world.memory().observe_word(number) == damage && ++looks < 100)
          world.sleep(10'000'000);
        world.require(looks < 100, "the waiter does not see that its line was overwritten");
      }
      *done = true;
    });
  };
  expect_held("lock", "random schedules", explore(scenario, 50));
}

/// Only the read itself invalidates the owner's copy.
TEST(Lock, ReportsOverwrittenLineToIdleParticipant) {
  Scenario scenario;
  scenario.name = "lock, looked at";
  scenario.device_bytes = 64 << 10;
  scenario.swarm = false;
  scenario.faults.evict = 0;
  scenario.faults.prefetch = 0;
  scenario.faults.drop_early = 0;
  scenario.body = [](World& world) {
    auto looked = std::make_shared<bool>(false);
    world.spawn(0, [&world, looked] {
      sync::Lock lock(world.memory(), line(world, 0), 2, 0, world.self().pid, alive_in(world));
      world.require(lock.acquire().has_value(),
                    "the lock is not free, although no other participant exists");
      lock.release();
      world.require(lock.intact(), "the line changed without a write");
      *looked = true;
      int looks = 0;
      for (; looks < 3'000 && lock.intact(); ++looks) world.yield();
      world.require(looks < 3'000, "the owner does not notice the overwritten line");
      lock.repair();
      world.require(lock.intact(), "it was repaired");
    });
    world.spawn(1, [&world, looked] {
      world.until([looked] { return *looked; });
      world.memory().publish_word(line(world, 0) + 8, 77);
      world.memory().store_fence();
    });
  };
  expect_held("lock", "random schedules", explore(scenario, 50));
}

/// A sharer of the lock reads two words twice, and must find them equal and unchanged; an exclusive
/// holder writes both. Lines 100 and 101: the words.
struct Readers {
  std::uint64_t greatest = 0;  ///< the greatest found
  int inside = 0;
};

void read_under_lock(World& world, Readers& readers, std::uint32_t participants, std::uint32_t self,
                     std::uint64_t rounds) {
  const coherence::Memory memory = world.memory();
  sync::Lock lock(memory, line(world, 0), participants, self, world.self().pid, alive_in(world));
  lock.repair();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto acquired = lock.acquire(timeout_ns, sync::Hold::shared);
    world.require(acquired.has_value(), acquired ? "" : acquired.error().message);
    ++readers.inside;
    const std::uint64_t first = memory.observe_word(line(world, 100));
    world.require(first >= readers.greatest, "the counter went backwards");
    readers.greatest = std::max(readers.greatest, first);
    world.yield();
    const std::uint64_t second = memory.observe_word(line(world, 101));
    world.require(first == second, fmt::format("written meanwhile: {} and {}", first, second));
    --readers.inside;
    lock.release();
  }
}

void write_under_lock(World& world, const Readers& readers, std::uint32_t participants,
                      std::uint32_t self, std::uint64_t rounds) {
  const coherence::Memory memory = world.memory();
  sync::Lock lock(memory, line(world, 0), participants, self, world.self().pid, alive_in(world));
  lock.repair();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto acquired = lock.acquire(timeout_ns);
    world.require(acquired.has_value(), acquired ? "" : acquired.error().message);
    world.require(readers.inside == 0, "others share a lock that is held exclusively");
    const std::uint64_t value = memory.observe_word(line(world, 100));
    for (const std::uint64_t word : {100, 101}) memory.publish_word(line(world, word), value + 1);
    world.require(readers.inside == 0, "others share a lock that is held exclusively");
    lock.release();
  }
}

/// One writer, participant 0; the others read. The victim is participant 1.
Scenario shared_lock_scenario(std::uint32_t participants, std::uint64_t rounds, bool with_victim) {
  Scenario scenario;
  scenario.name =
      fmt::format("lock, {} share it{}", participants - 1, with_victim ? ", one dies" : "");
  scenario.nodes = participants;
  scenario.device_bytes = 64 << 10;
  scenario.body = [=](World& world) {
    auto readers = std::make_shared<Readers>();
    for (std::uint32_t self = 0; self < participants; ++self) {
      const bool dies = with_victim && self == 1;
      Process& process = world.spawn(self, [=, &world] {
        if (self == 0) return write_under_lock(world, *readers, participants, self, rounds);
        Readers alone;  // the dead leave no count behind
        read_under_lock(world, dies ? alone : *readers, participants, self, rounds);
      });
      if (dies) world.mark_victim(process);
    }
  };
  return scenario;
}

TEST(Lock, IsSharedWithoutCoherence) {
  expect_held("lock", "random schedules", explore(shared_lock_scenario(3, 4, false), 200));
}

/// Each waits for the others while it holds the lock.
TEST(Lock, AllWhoShareItHoldItAtOnce) {
  Scenario scenario;
  scenario.name = "lock, 3 meet under it";
  scenario.nodes = 3;
  scenario.device_bytes = 64 << 10;
  scenario.body = [](World& world) {
    auto inside = std::make_shared<int>(0);
    for (std::uint32_t self = 0; self < 3; ++self)
      world.spawn(self, [=, &world] {
        sync::Lock lock(world.memory(), line(world, 0), 3, self, world.self().pid, alive_in(world));
        const auto acquired = lock.acquire(timeout_ns, sync::Hold::shared);
        world.require(acquired.has_value(), acquired ? "" : acquired.error().message);
        ++*inside;
        world.until([inside] { return *inside == 3; });
        lock.release();
      });
  };
  expect_held("lock", "random schedules", explore(scenario, 50));
}

TEST(Lock, IsSharedInEverySmallSchedule) {
  Scenario small = shared_lock_scenario(2, 1, false);
  small.faults.evict = small.faults.prefetch = 0;
  expect_held("lock", "bounded schedules", exhaust(small, 2, 20'000));
}

/// A sharer dies anywhere: the writer gets the lock, and so do the others.
TEST(Lock, SurvivesTheDeathOfWhoSharesIt) {
  expect_held("lock", "crash points", crash_everywhere(shared_lock_scenario(3, 3, true), 400));
}

/// Two participants share one lock each, and then the other lock too; two others want each lock
/// alone, and have queued before that. No cycle of waits arises: a sharer of one lock may hold
/// others.
TEST(Lock, ExclusiveWaiterYieldsToHoldersOfOthers) {
  Scenario scenario;
  scenario.name = "lock, two of them crosswise";
  scenario.nodes = 4;
  scenario.device_bytes = 64 << 10;
  scenario.body = [](World& world) {
    constexpr std::uint64_t queued_ns = 2'000'000;
    auto sharing = std::make_shared<int>(0);
    for (std::uint32_t self = 0; self < 4; ++self)
      world.spawn(self, [=, &world] {
        const auto lock = [&](std::uint32_t number) {
          return sync::Lock(world.memory(), line(world, 8 * number), 4, self, world.self().pid,
                            alive_in(world));
        };
        const auto acquire = [&](sync::Lock& wanted, sync::Hold hold) {
          const auto acquired = wanted.acquire(timeout_ns, hold);
          world.require(acquired.has_value(), acquired ? "" : acquired.error().message);
        };
        auto first = lock(self % 2), second = lock(1 - self % 2);
        if (self >= 2) {
          world.until([sharing] { return *sharing >= 2; });
          acquire(first, sync::Hold::exclusive);
          return first.release();
        }
        acquire(first, sync::Hold::shared);
        ++*sharing;
        world.until([sharing] { return *sharing == 2; });
        world.sleep(queued_ns);
        acquire(second, sync::Hold::shared);
        second.release();
        first.release();
      });
  };
  expect_held("lock", "random schedules", explore(scenario, 60));
}

// ---- barrier -----------------------------------------------------------------------------------

/// Lines 0..: the barrier; lines 100..: what each participant published before it.
Scenario barrier_scenario(std::uint32_t participants, std::uint64_t rounds) {
  Scenario scenario;
  scenario.name = fmt::format("barrier, {} participants", participants);
  scenario.nodes = participants;
  scenario.device_bytes = 64 << 10;
  scenario.body = [=](World& world) {
    for (std::uint32_t self = 0; self < participants; ++self) {
      world.spawn(self, [&world, participants, self, rounds] {
        const coherence::Memory memory = world.memory();
        sync::Barrier barrier(memory, line(world, 0), participants, self, world.self().pid,
                              alive_in(world));
        for (std::uint64_t round = 1; round <= rounds; ++round) {
          memory.publish_word(line(world, 100 + self), round);
          const auto passed = barrier.wait(timeout_ns);
          world.require(passed.has_value(), passed ? "" : passed.error().message);
          for (std::uint32_t other = 0; other < participants; ++other) {
            const std::uint64_t found = memory.observe_word(line(world, 100 + other));
            world.require(found == round || found == round + 1,
                          fmt::format("round {}: participant {} is at {}", round, other, found));
          }
        }
      });
    }
  };
  return scenario;
}

TEST(Barrier, SeparatesRanksAndPublishesData) {
  expect_held("barrier", "random schedules", explore(barrier_scenario(2, 6), 200));
  expect_held("barrier", "random schedules", explore(barrier_scenario(5, 3), 100));
}

TEST(Barrier, HoldsInEverySmallSchedule) {
  Scenario small = barrier_scenario(2, 1);
  small.faults.evict = small.faults.prefetch = 0;
  expect_held("barrier", "bounded schedules", exhaust(small, 2, 20'000));
}

/// A participant dies: the others pass if it had arrived, or get an error that names it.
TEST(Barrier, ReportsDeathOfParticipant) {
  Scenario scenario;
  scenario.name = "barrier, one dies";
  scenario.nodes = 3;
  scenario.device_bytes = 64 << 10;
  scenario.body = [](World& world) {
    for (std::uint32_t self = 0; self < 3; ++self) {
      Process& process = world.spawn(self, [&world, self] {
        sync::Barrier barrier(world.memory(), line(world, 0), 3, self, world.self().pid,
                              alive_in(world));
        for (int round = 0; round < 4; ++round) {
          const auto passed = barrier.wait(timeout_ns / 10);
          if (passed) continue;
          const bool silent = world.memory().observe_word(line(world, 0) + 8) == 0;
          world.require(world.victim()->dead, "an error although no process died");
          world.require(
              silent ? passed.error().code == ErrorCode::deadline
                     : passed.error().message.find("participant 0 of 3 died") != std::string::npos,
              passed.error().message);
          return;
        }
      });
      if (self == 0) world.mark_victim(process);
    }
  };
  expect_held("barrier", "crash points", crash_everywhere(scenario, 400));
}

/// It arrives between the other's last look and the check that finds it dead: it counts as arrived.
TEST(Barrier, WhoArrivesAsItsLastDeedHasArrived) {
  Scenario scenario;
  scenario.name = "barrier, a last deed";
  scenario.device_bytes = 64 << 10;
  scenario = with_lasting_copies(scenario);
  scenario.body = [](World& world) {
    auto go = std::make_shared<bool>(false);
    world.spawn(0, [&world, go] {
      const auto dies_when_asked = [&world, go](std::uint64_t) {
        *go = true;
        world.until([&world] { return world.processes()[1]->ended; });
        return false;
      };
      sync::Barrier barrier(world.memory(), line(world, 0), 2, 0, world.self().pid,
                            dies_when_asked);
      for (int round = 0; round < 2; ++round) {
        const auto passed = barrier.wait(timeout_ns);
        world.require(passed.has_value(), passed ? "" : passed.error().message);
      }
    });
    world.spawn(1, [&world, go] {
      sync::Barrier barrier(world.memory(), line(world, 0), 2, 1, world.self().pid, {});
      const auto first = barrier.wait(timeout_ns);
      world.require(first.has_value(), first ? "" : first.error().message);
      world.until([go] { return *go; });
      const auto second = barrier.wait(timeout_ns);
      world.require(second.has_value(), second ? "" : second.error().message);
    });
  };
  expect_held("barrier", "random schedules", explore(scenario, 5));
}

// ---- doorbell ----------------------------------------------------------------------------------

Scenario doorbell_scenario(std::uint32_t listeners, std::uint64_t rounds) {
  Scenario scenario;
  scenario.name = fmt::format("doorbell, {} listeners", listeners);
  scenario.nodes = 1 + listeners;
  scenario.device_bytes = 64 << 10;
  scenario.body = [=](World& world) {
    auto left = std::make_shared<std::uint32_t>(listeners);
    Process& ringer = world.spawn(0, [&world, rounds, left] {
      sync::Doorbell bell(world.memory(), line(world, 0));
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        world.memory().publish_word(line(world, round), round);
        bell.ring(round);
      }
      for (int i = 0; i < 100'000 && *left > 0; ++i)
        world.yield();  // its end would announce
                        // everything
    });
    world.mark_victim(ringer);
    for (std::uint32_t node = 1; node <= listeners; ++node) {
      world.spawn(node, [&world, rounds, left] {
        sync::Doorbell bell(world.memory(), line(world, 0));
        for (std::uint64_t round = 1; round <= rounds; ++round) {
          const auto rung = bell.wait(round, timeout_ns, alive_in(world), world.victim()->pid);
          if (!rung) {
            const bool reported = rung.error().code == ErrorCode::peer_dead && world.victim()->dead;
            world.require(reported, rung.error().message);
            return;
          }
          world.require(world.memory().observe_word(line(world, round)) == round,
                        "the bell rang before the data had arrived");
        }
        --*left;
      });
    }
  };
  return scenario;
}

TEST(Doorbell, SeesPublishesMadeBeforeRing) {
  expect_held("announce/observe", "random schedules", explore(doorbell_scenario(2, 10), 300));
}

TEST(Doorbell, HoldsInEverySmallSchedule) {
  expect_held("announce/observe", "bounded schedules", exhaust(doorbell_scenario(1, 1), 2, 20'000));
}

TEST(Doorbell, ReportsDeathOfRinger) {
  expect_held("announce/observe", "crash points", crash_everywhere(doorbell_scenario(2, 6), 200));
}

}  // namespace
}  // namespace penstock::sim::sync_test
