// Transactions on memory without coherence: the writer, its node and recovering processes die at
// any operation; power fails on all nodes at once; others read meanwhile.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/tests/persist_space.hpp"
#include "sim/tests/stops.hpp"

namespace penstock::sim::transactions_test {
namespace {

/// Undoes what can be undone now.
bool no_log_is_left(Member& member) {
  member.recover();
  const auto objects = member.arena->list();
  return std::none_of(objects.begin(), objects.end(),
                      [](const auto& object) { return object.name.starts_with("penstock.log."); });
}

/// After the victim's death two processes recover at the same time, one of which may die; the
/// objects must hold what one transaction left, also when a new writer's bytes lie there and the
/// dead's lines leave their caches.
void outlive(World& world, const PersistSpace& space, const Numbers& numbers) {
  Member member(world, space);
  member.recover();
  const std::uint64_t found = member.read_both("after the death");
  world.require(numbers.may_be(found), fmt::format("{} is there, {} was committed, {} begun", found,
                                                   numbers.committed, numbers.trying));
  wait_until(world, "the dead writer's log to go", [&] { return no_log_is_left(member); });
  constexpr std::uint64_t new_number = 1000;
  {
    const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes));
    must(world, log->begin());
    member.change(*log, new_number);
    must(world, log->commit());
  }
  world.require(member.read_both("of the next writer") == new_number,
                "the objects hold another number");
  world.evict_left_dirty();
  world.require(member.read_both("when all has left") == new_number,
                "the dead process's number overwrote the new one");
}

void recover_and_die(World& world, const PersistSpace& space) {
  Member member(world, space);
  if (world.random() % 2 == 0)
    world.self().dies_at = world.self().operations + world.random() % 400;
  member.recover();
  for (const auto& object : member.objects) (void)member.read(object);
}

Scenario writer_dies(const PersistSpace& space) {
  Scenario scenario = space.scenario("transactions, the writer dies", persist_nodes);
  scenario.max_steps = 8'000'000;
  scenario.body = [&space](World& world) {
    auto numbers = std::make_shared<Numbers>();
    auto ended = std::make_shared<bool>(false);
    Process& mortal = world.mark_victim(world.spawn(1, [&world, &space, numbers] {
      Member member(world, space);
      const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes));
      transact(world, member, *log, *numbers, 0, 3);
    }));
    world.spawn(0, [&world, &space, &mortal] {
      wait_until(world, "the mortal", [&] { return gone(mortal); });
      recover_and_die(world, space);
    });
    world.spawn(2, [&world, &space, &mortal, numbers, ended] {
      wait_until(world, "the mortal", [&] { return gone(mortal); });
      world.spawn(1, [&world, &space, ended] { visit_until(world, space, *ended); });
      outlive(world, space, *numbers);
      *ended = true;
    });
  };
  scenario.after = [&space](World& world) {
    Member member(world, space);
    wait_until(world, "the logs of the dead to go", [&] { return no_log_is_left(member); });
  };
  return scenario;
}

TEST(Transactions, AreAtomicWhenProcessDies) {
  const PersistSpace space;
  const Scenario scenario = writer_dies(space);
  expect_held("transactions", "random schedules", explore(scenario, 20));
  expect_held("transactions", "crash points", crash_everywhere(scenario, 160));
}
TEST(Transactions, AreAtomicWhenProcessDiesWithinLine) {
  const PersistSpace space;
  Scenario scenario = dying_in_a_line(writer_dies(space), 120);
  expect_held("transactions", "deaths within a line", explore(scenario, 80));
}
TEST(Transactions, AreWholeThoughCopiesLast) {
  const PersistSpace space;
  const Scenario scenario = with_lasting_copies(writer_dies(space));
  expect_held("transactions", "crash points", crash_everywhere(scenario, 80));
}

/// The writer begins, and dies, while recovering processes hold copies of its log and of the
/// objects.
Scenario writer_dies_behind_copies(const PersistSpace& space) {
  Scenario scenario = with_lasting_copies(writer_dies(space));
  scenario.name += ", everywhere";
  scenario.body = [&space](World& world) {
    auto numbers = std::make_shared<Numbers>();
    auto ended = std::make_shared<bool>(false);
    auto opened = std::make_shared<bool>(false);
    auto fetched = std::make_shared<int>(0);
    Process& mortal = world.mark_victim(world.spawn(1, [&world, &space, numbers, opened, fetched] {
      Member member(world, space);
      const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes));
      *opened = true;
      wait_until(world, "the others' copies", [&] { return *fetched == 2; });
      transact(world, member, *log, *numbers, 0, 2);
    }));
    for (const std::uint32_t node : {0u, 2u}) {
      world.spawn(node, [&world, &space, &mortal, opened, fetched, numbers, ended, node] {
        Member member(world, space);
        wait_until(world, "the log", [&] { return *opened || gone(mortal); });
        fetch_everything(member);
        ++*fetched;
        wait_until(world, "the mortal", [&] { return gone(mortal); });
        if (node == 0) return recover_and_die(world, space);
        world.spawn(1, [&world, &space, ended] { visit_until(world, space, *ended); });
        outlive(world, space, *numbers);
        *ended = true;
      });
    }
  };
  return scenario;
}

TEST(Transactions, AreAtomicDespiteStaleCopiesOfRecoverer) {
  const PersistSpace space;
  const Scenario scenario = writer_dies_behind_copies(space);
  expect_held("transactions", "random schedules", explore(scenario, 10));
  expect_held("transactions", "crash points", crash_everywhere(scenario, 80));
}

/// The nodes lose their power at once. Data that was not at the device is lost; committed data
/// stays.
Scenario power_cut(const PersistSpace& space) {
  Scenario scenario = space.scenario("transactions, a power cut", persist_nodes + 1);
  scenario.max_steps = 8'000'000;
  scenario.body = [&space](World& world) {
    auto numbers = std::make_shared<Numbers>();
    auto begun = std::make_shared<bool>(false);
    world.spawn(1, [&world, &space, numbers, begun] {
      Member member(world, space);
      const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes));
      *begun = true;
      transact(world, member, *log, *numbers, 0, 1'000'000);
    });
    world.spawn(persist_nodes, [&world, &space, numbers, begun] {
      wait_until(world, "the writer", [&] { return *begun; });
      for (int cuts = 0; cuts < 3; ++cuts) {
        // within a transaction, or while a process restores
        const std::uint64_t until = world.steps() + world.random() % 1500;
        world.until([&] { return world.steps() >= until; });
        for (std::uint32_t node = 0; node < persist_nodes; ++node) world.lose_node(node);
        auto read = std::make_shared<bool>(false);
        world.spawn(0, [&world, &space, numbers, read] {
          Member member(world, space);
          member.recover();
          const std::uint64_t found = member.read_both("after the power cut");
          world.require(numbers->may_be(found),
                        fmt::format("{} is there, {} was committed, {} begun", found,
                                    numbers->committed, numbers->trying));
          *read = true;
          wait_until(world, "the next cut", [] { return false; });
        });
        world.spawn(1, [&world, &space, read] { visit_until(world, space, *read); });
        if (cuts == 2) wait_until(world, "the reader", [&] { return *read; });
      }
      world.lose_node(0);
      world.lose_node(1);
    });
  };
  return scenario;
}

TEST(Transactions, APowerCutLosesNoneThatWasCommitted) {
  const PersistSpace space;
  expect_held("transactions", "power cuts", explore(power_cut(space), 40));
  expect_held("transactions", "power cuts", explore(with_lasting_copies(power_cut(space)), 20));
}

/// The writer's node loses its power while a transaction ends, and publishes travel slowly:
/// unordered stores leave in any order.
Scenario power_goes_at_the_end(const PersistSpace& space, bool aborts) {
  Scenario scenario = space.scenario("transactions, the power goes at the end", persist_nodes);
  scenario.max_steps = 8'000'000;
  scenario.swarm = false;
  scenario.faults.deliver = 0;
  scenario.body = [&space, aborts](World& world) {
    auto numbers = std::make_shared<Numbers>();
    Process& mortal = world.spawn(1, [&world, &space, numbers, aborts] {
      Member member(world, space);
      const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes));
      numbers->trying = 1;
      must(world, log->begin());
      member.change(*log, 1);
      must(world, log->commit());
      numbers->committed = 1;
      if (!aborts) numbers->trying = 2;
      must(world, log->begin());
      member.change(*log, 2);
      const coherence::Memory& memory = member.pool->memory();
      if (aborts) {  // all stores have left, as they may
        for (const auto& object : member.objects) memory.write_back(object.data, object.bytes);
        memory.full_fence();
      }
      world.self().takes_node_along = true;
      const std::uint64_t operations = aborts ? 60 : 24;  // about as many as it takes
      world.self().dies_at = world.self().operations + 1 + world.random() % operations;
      must(world, aborts ? log->abort() : log->commit());
      numbers->committed = numbers->trying;
      for (;;) memory.load_fence();  // until it dies
    });
    world.spawn(2, [&world, &space, &mortal, numbers] {
      wait_until(world, "the mortal", [&] { return gone(mortal); });
      auto ended = std::make_shared<bool>(false);
      world.spawn(1, [&world, &space, ended] { visit_until(world, space, *ended); });
      outlive(world, space, *numbers);
      *ended = true;
    });
  };
  return scenario;
}

TEST(Transactions, AreAtomicWhenPowerFailsAtEnd) {
  const PersistSpace space;
  for (const bool aborts : {false, true}) {
    const Scenario scenario = power_goes_at_the_end(space, aborts);
    expect_held("transactions", "power cuts", explore(scenario, 60));
  }
}

/// A process that learns by other means that a transaction has ended, or that an object was given
/// back, finds it so at once.
Scenario announced(const PersistSpace& space) {
  Scenario scenario = space.scenario("transactions, told by other means", persist_nodes);
  scenario.swarm = false;
  scenario.faults.deliver = 0;
  scenario.faults.max_delay = 20'000;
  scenario.faults.hold_unordered = true;
  scenario.body = [&space](World& world) {
    auto announced = std::make_shared<int>(0);
    auto seen = std::make_shared<int>(0);
    constexpr int rounds = 4;
    world.spawn(1, [&world, &space, announced, seen] {
      Member member(world, space);
      const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes));
      const auto announce = [&] {
        ++*announced;
        wait_until(world, "it to be seen", [&] { return *seen == *announced; });
      };
      for (int round = 0; round < rounds; ++round) {
        must(world, log->begin());
        member.change(*log, static_cast<std::uint64_t>(round));
        must(world, round % 2 == 1 ? log->abort() : log->commit());
        announce();
        if (round < rounds / 2) {
          must(world, log->release_all());
        } else {
          for (const auto& object : member.objects) must(world, log->release(object));
        }
        announce();
      }
    });
    world.spawn(2, [&world, &space, announced, seen] {
      Member member(world, space);
      while (*seen < 2 * rounds) {
        wait_until(world, "news", [&] { return *announced > *seen; });
        for (const auto& object : member.objects) {
          const auto version = must(world, persist::ObjectVersion::find(*member.arena, object));
          world.require(version.has_value(), "the object has no version");
          const auto state = version->read();
          world.require(!state.changing(), "the object is still being changed");
          world.require(*announced % 2 == 1 || state.owner == 0, "the object still has a writer");
        }
        *seen = *announced;
      }
    });
  };
  return scenario;
}

TEST(Transactions, HaveEndedForWhomeverIsTold) {
  const PersistSpace space;
  expect_held("transactions", "random schedules", explore(announced(space), 5));
}

/// Readers on other nodes see each object as one transaction left it, and never an older state
/// later.
Scenario readers(const PersistSpace& space) {
  Scenario scenario = space.scenario("transactions, readers", persist_nodes);
  scenario.max_steps = 8'000'000;
  scenario.body = [&space](World& world) {
    auto numbers = std::make_shared<Numbers>();
    auto ended = std::make_shared<bool>(false);
    world.spawn(1, [&world, &space, numbers, ended] {
      Member member(world, space);
      const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes));
      transact(world, member, *log, *numbers, 0, 6);
      *ended = true;
    });
    for (const std::uint32_t node : {0u, 2u}) {
      world.spawn(node, [&world, &space, numbers, ended, node] {
        Member member(world, space);
        const auto& object = member.objects[node / 2];
        auto reader = must(world, persist::Reader::open(*member.arena, object));
        std::uint64_t last = 0;
        while (!*ended) {
          const std::uint64_t before = numbers->committed;
          const std::uint64_t found = member.read(object, reader);
          world.require(
              found >= last && found >= before && found <= numbers->trying,
              fmt::format("{} was read after {}, when {} was committed", found, last, before));
          last = found;
        }
      });
    }
  };
  return scenario;
}

TEST(Transactions, ReadersSeeOldOrNew) {
  const PersistSpace space;
  expect_held("transactions", "random schedules", explore(readers(space), 40));
  expect_held("transactions", "random schedules", explore(with_lasting_copies(readers(space)), 30));
}

/// One writer after another, on other nodes; each must find what the previous one left: its own old
/// copies are of no use.
Scenario writers_in_turn(const PersistSpace& space) {
  Scenario scenario = space.scenario("transactions, writers in turn", persist_nodes);
  scenario.max_steps = 8'000'000;
  scenario.body = [&space](World& world) {
    auto turn = std::make_shared<std::uint64_t>(0);
    for (std::uint32_t node = 0; node < persist_nodes; ++node) {
      world.spawn(node, [&world, &space, turn, node] {
        Member member(world, space);
        const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes));
        for (std::uint64_t mine = node; mine < 7; mine += persist_nodes) {
          wait_until(world, "its turn", [&] { return *turn == mine; });
          must(world, log->begin());
          member.change(*log, mine + 1);
          must(world, mine % 2 == 1 ? log->abort() : log->commit());
          if (world.random() % 2 == 0) {
            must(world, log->release_all());
          } else {
            for (const auto& object : member.objects) must(world, log->release(object));
          }
          const std::uint64_t found = member.read_both("in its turn");
          const std::uint64_t kept = mine / 2 * 2 + 1;  // odd turns are aborted
          world.require(found == kept, fmt::format("{} in turn {}", found, mine));
          *turn = mine + 1;
        }
      });
    }
  };
  return scenario;
}

TEST(Transactions, WritersInTurnFindWhatWasThere) {
  const PersistSpace space;
  expect_held("transactions", "random schedules", explore(writers_in_turn(space), 40));
  expect_held("transactions", "random schedules",
              explore(with_lasting_copies(writers_in_turn(space)), 40));
}

/// A writer is stopped within a transaction, declared dead, undone, and goes on: it ends before it
/// stores anything.
Scenario writer_stops(const PersistSpace& space) {
  Scenario scenario = space.scenario("transactions, the writer is stopped", persist_nodes);
  scenario.max_steps = 8'000'000;
  scenario.body = [&space](World& world) {
    auto numbers = std::make_shared<Numbers>();
    Process& late = world.spawn(1, [&world, &space, numbers] {
      Member member(world, space);
      const auto log = must(world, persist::UndoLog::open(*member.arena, log_bytes));
      stop_within(world, 300);
      transact(world, member, *log, *numbers, 0, 100);
      world.require(false, "it was not stopped");
    });
    late.may_exit = true;
    world.spawn(2, [&world, &space, &late, numbers] {
      wait_until(world, "it to stop", [&] { return late.stopped; });
      world.sleep(2 * space.lease_ns(world));
      Member member(world, space);
      wait_until(world, "it to be given up", [&] {
        world.sleep(space.lease_ns(world) / 4);
        const auto recovered = must(world, persist::recover(*member.arena));
        return recovered.logs != 0 || !recovered.waiting.empty();
      });
      late.stopped = false;  // its host flushes when it has ended
      wait_until(world, "it to end", [&] { return gone(late); });
      world.require(late.exit_status == 75, "it went on");
      auto visited = std::make_shared<bool>(false);
      world.spawn(1, [&world, &space, visited] { visit_until(world, space, *visited); });
      outlive(world, space, *numbers);
      *visited = true;
    });
  };
  return scenario;
}

TEST(Transactions, AWriterThatWasGivenUpHarmsNothing) {
  const PersistSpace space;
  expect_held("transactions", "random schedules", explore(writer_stops(space), 40));
}

}  // namespace
}  // namespace penstock::sim::transactions_test
