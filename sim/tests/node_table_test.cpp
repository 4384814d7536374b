// The table of nodes and its hints: one host's writes are found by the others, although they hold
// old copies; and of two that enter themselves in one place at once, one gives way.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "device/superblock.hpp"
#include "pool/checksummed_line.hpp"
#include "pool/node_table.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim::node_table_test {
namespace {

using pool::NodeLine;
using pool::NodeTable;

constexpr std::uint32_t hosts = 3;

/// A process of its node that has not joined.
struct Newcomer {
  Newcomer(World& the_world, const SimulatedPool& pool)
      : world(the_world),
        superblock(*pool::check_superblocks(*device::open_parts(pool.path(), device::Access::read),
                                            pool.path())),
        host(world.host(world.self().node)),
        process(world.identity(world.self())),
        processes(world.memory(), world.base(), superblock),
        attaching(world.memory(), world.base(), superblock),
        liveness(processes, attaching, host, process, pool.lease_ns(world)),
        table(world.memory(), world.base(), superblock),
        joiner{.host = host,
               .process = process,
               .emulated_node = std::nullopt,
               .processes = processes,
               .attaching = attaching,
               .liveness = liveness,
               .heartbeat = heartbeat,
               .exit_if_declared_dead = [](std::uint64_t) {},
               .must_flush = [](std::uint32_t) { return false; },
               .spec = spec} {}
  std::uint64_t place(std::uint32_t node) const {
    return superblock.nodes_offset + node * sizeof(NodeLine);
  }
  /// Writes the entry that a host with that boot id would write.
  void write(std::uint32_t node, const NodeLine& line) const {
    pool::publish_checksummed_line(world.memory(), world.base(), place(node), line);
    world.memory().full_fence();
  }
  /// Returns the number; `lines`: how many lines were read.
  std::uint32_t join(std::uint64_t* lines = nullptr) const {
    const auto& core = *world.running().core;
    const std::uint64_t before = core.device_reads();
    const auto seat = table.join(joiner);
    world.require(seat.has_value(), seat ? "" : seat.error().message);
    if (lines != nullptr) *lines = core.device_reads() - before;
    heartbeat.reset();
    seat->visit->leave();
    world.memory().full_fence();
    return seat->node;
  }

  World& world;
  device::Superblock superblock;
  pool::HostIdentity host;
  pool::ProcessIdentity process;
  pool::ProcessTable processes;
  pool::AttachingTable attaching;
  mutable pool::Liveness liveness;
  NodeTable table;
  mutable std::unique_ptr<pool::Heartbeat> heartbeat;
  std::string spec = "a pool";
  NodeTable::Joiner joiner;
};

NodeLine line_of_turn(std::uint32_t turn) {
  return {.boot_id = {0x77}, .machine_id = {0x78}, .registered_wall_ns = turn, .incarnation = turn};
}

Scenario hosts_in_turn(const SimulatedPool& pool, const std::string& name, std::uint32_t turns,
                       std::function<void(const Newcomer&, std::uint32_t turn)> take) {
  Scenario scenario = pool.scenario("pool, " + name, hosts);
  scenario.faults.same_speed = true;
  scenario.body = [&pool, turns, take = std::move(take)](World& world) {
    auto now = std::make_shared<std::uint32_t>(0);
    for (std::uint32_t node = 0; node < hosts; ++node)
      world.spawn(node, [&world, &pool, now, node, turns, take] {
        const Newcomer newcomer(world, pool);
        for (std::uint32_t mine = node; mine < turns; mine += hosts) {
          world.until([&] { return *now == mine; });
          take(newcomer, mine);
          ++*now;
        }
      });
  };
  return scenario;
}

void expect_held_in_turn(const SimulatedPool& pool, const std::string& name, std::uint32_t turns,
                         std::function<void(const Newcomer&, std::uint32_t)> take) {
  const Scenario scenario = hosts_in_turn(pool, name, turns, std::move(take));
  expect_held("pool", "random schedules", explore(scenario, 10));
  expect_held("pool", "random schedules", explore(with_lasting_copies(scenario), 5));
}

/// One entry is rewritten each turn, by one look and by all; another one is taken.
TEST(NodeTable, AnEntryIsReadAsItIsNow) {
  const SimulatedPool pool({.max_processes = 64, .max_nodes = 16});
  expect_held_in_turn(pool, "entries in turn", 12, [](const Newcomer& it, std::uint32_t turn) {
    const std::uint32_t written = turn / 6;  // by two of them, each looked at in its own way
    const auto seen =
        written == 0 ? it.table.read(0).value_or(NodeLine{}) : it.table.entries()[1].line;
    const bool first = turn % 6 == 0;
    it.world.require(first || seen.incarnation == turn, "an older entry");
    it.write(written, line_of_turn(turn + 1));
  });
}

TEST(NodeTable, AnEntryIsTakenOnce) {
  const SimulatedPool pool({.max_processes = 64, .max_nodes = 16});
  expect_held_in_turn(pool, "free entries in turn", 12, [](const Newcomer& it, std::uint32_t turn) {
    if (turn == 0) return;
    for (std::uint32_t ahead = turn; ahead < turn + hosts; ++ahead) {
      it.world.require(!it.table.read(ahead), "nobody has it");
    }
    it.world.require(turn == 1 || !it.table.take_free_entry(it.joiner, turn - 1),
                     "an entry was taken twice");
    it.write(turn, line_of_turn(turn));
  });
}

/// It is read while a half of it has arrived; soon all of it has.
TEST(NodeTable, ATornEntryIsLookedAtAgain) {
  const SimulatedPool pool({.max_processes = 64, .max_nodes = 16});
  Scenario scenario = pool.scenario("pool, a torn entry", 2);
  scenario.body = [&pool](World& world) {
    auto torn = std::make_shared<bool>(false);
    world.spawn(0, [&world, &pool, torn] {
      const Newcomer newcomer(world, pool);
      NodeLine line = line_of_turn(1);
      line.checksum = pool::line_checksum(&line, newcomer.place(0));
      std::uint64_t words[8];
      static_assert(sizeof words == sizeof line);
      std::memcpy(words, &line, sizeof line);
      for (std::uint32_t word = 0; word < 8; ++word) {
        world.memory().publish_word(world.base() + newcomer.place(0) + 8ull * word, words[word]);
        world.memory().full_fence();
        if (word == 3) *torn = true;
      }
    });
    world.spawn(1, [&world, &pool, torn] {
      const Newcomer newcomer(world, pool);
      while (!*torn) world.yield();
      world.require(newcomer.table.entries()[0].registered(), "it stays torn");
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 20));
  expect_held("pool", "random schedules", explore(with_lasting_copies(scenario), 20));
}

/// Hosts whose hints are in one line: a host that comes again finds its number by its hint, and
/// reads that, the entry twice and the line of attaching processes three times.
TEST(NodeTable, WhoComesAgainLooksAtFewLines) {
  constexpr std::uint64_t few = 6;
  const SimulatedPool pool({.max_processes = 64, .max_nodes = 3});
  expect_held_in_turn(pool, "hints in turn", 12, [](const Newcomer& it, std::uint32_t turn) {
    if (turn < hosts) {  // copies of earlier contents
      for (std::uint32_t line = 0; line < pool::place_lines_of(3); ++line)
        (void)it.world.memory().observe_word(it.world.base() + it.superblock.places_offset +
                                             line * coherence::line_bytes);
      return;
    }
    std::uint64_t lines = 0;
    it.world.require(it.join(&lines) == turn % hosts, "another number");
    it.world.require(turn < 2 * hosts || lines <= few, fmt::format("{} lines", lines));
  });
}

/// Two copies of a machine come in its place at once.
TEST(NodeTable, OfTwoInOnePlaceOneGivesWay) {
  constexpr std::uint32_t rounds = 6;
  struct Both {
    std::uint32_t ready = 0, there = 0, done = 0;
  };
  const SimulatedPool pool({.max_processes = 64, .max_nodes = 16});
  Scenario scenario = pool.scenario("pool, two copies of a machine", 2);
  scenario.faults.same_speed = true;
  scenario.faults.max_delay = 10;
  scenario.body = [&pool](World& world) {
    auto both = std::make_shared<Both>();
    for (const std::uint32_t node : {0u, 1u})
      world.spawn(node, [&world, &pool, both, node] {
        const Newcomer newcomer(world, pool);
        newcomer.heartbeat = std::make_unique<pool::Heartbeat>(pool.lease_ns(world), [] {});
        for (std::uint32_t round = 0; round < rounds; ++round) {
          if (node == 0) newcomer.write(round, line_of_turn(1));
          ++both->ready;
          world.until([&] { return both->ready == 2 * round + 2; });
          for (std::uint64_t late = world.random() % 30; late != 0; --late) world.yield();
          if (newcomer.table.replace(newcomer.joiner, round, line_of_turn(1))) ++both->there;
          ++both->done;
          world.until([&] { return both->done == 2 * round + 2; });
          world.require(both->there < 2, "two hosts have the same number");
          both->there = 0;
        }
      });
    world.spawn(0, [&world, both] {  // ordered stores leave while the others sleep
      while (both->done < 2 * rounds) world.yield();
    });
  };
  expect_held("pool", "random schedules", explore(scenario, 10));
  expect_held("pool", "late stores", explore(with_late_stores(scenario), 10));
}

}  // namespace
}  // namespace penstock::sim::node_table_test
