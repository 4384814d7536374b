// Each process finds what another publishes about its endpoint, although its node holds old copies
// of that endpoint's line, of its box and of the table: one step after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "sim/tests/endpoint_tables.hpp"
#include "sim/tests/in_turn.hpp"

namespace penstock::sim {
namespace {

using transport::Address;
using transport::EndpointLine;
using transport::EndpointTable;

Address claim(SpaceUser& user) {
  const auto address = table_of(user).claim(1);
  user.world.require(address.has_value(), address ? "" : address.error().message);
  return *address;
}

/// The address of the slot's endpoint.
Address address_of(SpaceUser& user, std::uint32_t slot) {
  const auto line = table_of(user).read(slot);
  user.world.require(line.has_value(), "its own line is not whole");
  return {user.pool->info().id, 1, slot, static_cast<std::uint32_t>(line->generation)};
}

void release(SpaceUser& user, const Address& address) {
  table_of(user).release(address);
  user.pool->memory().full_fence();
}

void expect_empty_box(SpaceUser& user, const EndpointTable& table, std::uint32_t slot) {
  std::vector<std::uint64_t> words(table.tiles().layout().box_bytes() / 8);
  user.pool->memory().observe_bulk(words.data(), table.tiles().box(slot), 8 * words.size());
  user.world.require(std::all_of(words.begin(), words.end(), [](auto word) { return word == 0; }),
                     "its box holds other objects' words");
}

/// By a look at the slot's line, or at all lines.
std::optional<EndpointLine> look(SpaceUser& user, std::uint32_t slot, bool at_all) {
  const EndpointTable table = table_of(user);
  return at_all ? table.read_all()[slot] : table.read(slot);
}

/// The first process to open the table makes it, where the others hold copies of other objects.
void follow_one_endpoint(World& world, Puppet& rank, Puppet& one, Puppet&) {
  rank.does([](SpaceUser& user) { (void)table_of(user); });
  for (int round = 0; round < 4; ++round) {
    const bool at_all = round % 2 == 0;
    Address address;
    const auto expect = [&](const std::function<bool(const EndpointLine&)>& holds,
                            const char* what) {
      one.does([&](SpaceUser& user) {
        const auto line = look(user, address.slot, at_all);
        world.require(line && line->generation == address.generation && holds(*line), what);
      });
    };
    rank.does([&](SpaceUser& user) { address = claim(user); });
    expect([](const EndpointLine& line) { return line.open(); }, "its claim is not found");
    one.does([&](SpaceUser& user) { expect_empty_box(user, table_of(user), address.slot); });
    rank.does([&](SpaceUser& user) { table_of(user).set_user_word(address, 7); });
    expect([](const EndpointLine& line) { return line.user_word == 7; }, "its word is not found");
    rank.does([&](SpaceUser& user) { release(user, address); });
    expect([](const EndpointLine& line) { return line.closed(); }, "its end is not found");
  }
}

TEST(EndpointTable, WhatOneSaysOfItsEndpointIsFound) {
  const SmallPool pool(room_for_the_table);
  expect_held_in_turn("endpoints", pool, "one endpoint in turn", follow_one_endpoint);
  const Scenario scenario = in_turn(pool, "one endpoint in turn", follow_one_endpoint);
  expect_held("endpoints", "late stores", explore(with_late_stores(scenario), 10));
}

/// It is stopped anywhere while it claims a slot whose line was torn: once the line is whole, the
/// box is valid.
void watch_claims(World& world, Puppet& rank, Puppet& one, Puppet&) {
  constexpr int rounds = 20, operations_of_a_claim = 14;
  std::uint32_t slot = 0;
  rank.does([&](SpaceUser& user) { slot = claim(user).slot; });
  for (int round = 0; round < rounds; ++round) {
    rank.does([&](SpaceUser& user) { release(user, address_of(user, slot)); });
    one.does([&](SpaceUser& user) {
      const EndpointTable table = table_of(user);
      const std::vector<std::uint64_t> ones(table.tiles().layout().box_bytes() / 8, ~0ull);
      const EndpointLine torn{};
      user.pool->memory().publish_bulk(table.tiles().box(slot), ones.data(), 8 * ones.size());
      user.pool->memory().publish_line(table.line_of(slot), &torn);
      user.pool->memory().full_fence();
    });
    one.starts([&](SpaceUser& user) {
      const EndpointTable table = table_of(user);
      while (!table.read(slot)) world.yield();
      expect_empty_box(user, table, slot);
    });
    std::optional<EndpointTable> table;
    rank.does([&](SpaceUser& user) { table.emplace(table_of(user)); });
    stop_within(
        world, operations_of_a_claim, rank, [&](SpaceUser&) { (void)table->claim(1); }, one);
  }
}

TEST(EndpointTable, WholeLineImpliesValidBox) {
  const SmallPool pool(room_for_the_table);
  expect_held_with_late_stores("endpoints", pool, "claims that are watched", watch_claims);
}

/// A closed line says that all earlier publishes of its process have arrived.
void watch_ends(World& world, Puppet& rank, Puppet& one, Puppet&) {
  constexpr std::uint64_t rounds = 20;
  Object object;
  std::uint32_t slot = 0;
  rank.does([&](SpaceUser& user) {
    object = *user.create("words", 64);
    (void)claim(user);  // its own slot, whose release takes a mutex that sends all stores
  });
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    rank.does([&](SpaceUser& user) { slot = claim(user).slot; });
    one.starts([&](SpaceUser& user) {
      const EndpointTable table = table_of(user);
      while (!table.read(slot)->closed()) world.yield();
      world.require(user.pool->memory().observe_word(user.pool->base() + object.offset) == round,
                    "it has closed, but its earlier publishes have not arrived");
    });
    rank.does([&](SpaceUser& user) {
      EndpointTable table = table_of(user);
      const Address address = address_of(user, slot);
      user.pool->memory().publish_word(object.data, round);
      table.release(address);
    });
    one.await();
  }
}

TEST(EndpointTable, PublishesPrecedeClose) {
  const SmallPool pool(room_for_the_table);
  expect_held_with_late_stores("endpoints", pool, "ends that are watched", watch_ends);
}

/// Threads of one process: one closes the process's own slot, and the next one takes it.
void change_threads(World& world, Puppet& rank, Puppet&, Puppet&) {
  rank.does([&world](SpaceUser& user) {
    EndpointTable table = table_of(user);
    const auto open_and_close = [&] {
      for (int round = 0; round < 10; ++round) {
        const auto address = table.claim(1);
        world.require(address.has_value(), address ? "" : address.error().message);
        const auto line = table.read(address->slot);
        world.require(line && line->open() && line->generation == address->generation,
                      "an earlier endpoint's end overwrote the line");
        table.release(*address);
        world.yield();
      }
    };
    std::thread another(open_and_close);
    open_and_close();
    another.join();
  });
}

TEST(EndpointTable, ThreadsTakeASlotInTurn) {
  const SmallPool pool(room_for_the_table);
  const Scenario scenario = in_turn(pool, "a slot of threads", change_threads);
  expect_held("endpoints", "random schedules", explore(scenario, 10));
  expect_held("endpoints", "late stores", explore(with_late_stores(scenario), 10));
}

/// The slot may have belonged to any process on any node: the next endpoint in a process's own slot
/// has another address, although the node holds a copy of the line from before the last one.
TEST(EndpointTable, TheOwnSlotOfAProcessWasAnothers) {
  SimulatedPool pool({.max_processes = 4});
  pool.once([&pool](World& world) {  // no slot is fresh: nodes take them from each other
    for (int i = 0; i < 5; ++i) SpaceUser(world, pool);
    SpaceUser user(world, pool);
    (void)table_of(user);
  });
  Scenario scenario = pool.scenario("endpoints, a process's own slot", 2);
  scenario.body = [&pool](World& world) {
    struct Stages {
      bool looked = false;
      std::optional<Address> before;
    };
    auto all = std::make_shared<Stages>();
    world.spawn(1, [&world, &pool, all] {
      SpaceUser stays(world, pool, "sim");
      (void)table_of(stays).read_all();
      all->looked = true;
      wait_until(world, "an endpoint", [&] { return all->before && gone(*world.processes()[1]); });
      std::vector<std::unique_ptr<SpaceUser>> users;
      do {
        users.push_back(std::make_unique<SpaceUser>(world, pool, "sim"));
      } while (users.back()->pool->slot() != all->before->slot);
      const Address now = claim(*users.back());
      world.require(now.slot == all->before->slot && now.generation > all->before->generation,
                    "two endpoints have the same address");
    });
    world.spawn(0, [&world, &pool, all] {
      wait_until(world, "copies", [&] { return all->looked; });
      SpaceUser user(world, pool, "sim");
      const Address address = claim(user);
      release(user, address);
      all->before = address;
    });
  };
  expect_held("endpoints", "random schedules", explore(scenario, 10));
  expect_held("endpoints", "random schedules", explore(with_lasting_copies(scenario), 5));
}

}  // namespace
}  // namespace penstock::sim
