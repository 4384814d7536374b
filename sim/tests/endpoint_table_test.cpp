// What one says of its endpoint the others find, though their nodes have old copies of its line, of
// its box and of the table: one step after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "sim/tests/in_turn.hpp"
#include "sim/tests/late_stores.hpp"
#include "transport/endpoint_table.hpp"

namespace penstock::sim {
namespace {

using transport::Address;
using transport::EndpointLine;
using transport::EndpointTable;

constexpr std::uint64_t room_for_the_table = 128 << 10;

EndpointTable table_of(SpaceUser& user) {
  auto table = EndpointTable::open(*user.arena);
  user.world.require(table.has_value(), table ? "" : table.error().message);
  return *table;
}

Address claim(SpaceUser& user) {
  const auto address = table_of(user).claim(1);
  user.world.require(address.has_value(), address ? "" : address.error().message);
  return *address;
}

void release(SpaceUser& user, const Address& address) {
  table_of(user).release(address);
  user.pool->memory().full_fence();
}

void expect_empty_box(SpaceUser& user, std::uint32_t slot) {
  const EndpointTable table = table_of(user);
  std::vector<std::uint64_t> words(table.tiles().layout().box_bytes() / 8);
  user.pool->memory().observe_bulk(words.data(), table.tiles().box(slot), 8 * words.size());
  user.world.require(std::all_of(words.begin(), words.end(), [](auto word) { return word == 0; }),
                     "its box has words of others");
}

/// By a look at the slot's line or at all lines.
std::optional<EndpointLine> look(SpaceUser& user, std::uint32_t slot, bool at_all) {
  const EndpointTable table = table_of(user);
  return at_all ? table.read_all()[slot] : table.read(slot);
}

/// The first to open it makes it, where the others have copies of other objects.
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
    one.does([&](SpaceUser& user) { expect_empty_box(user, address.slot); });
    rank.does([&](SpaceUser& user) { table_of(user).set_user_word(address, 7); });
    expect([](const EndpointLine& line) { return line.user_word == 7; }, "its word is not found");
    rank.does([&](SpaceUser& user) { release(user, address); });
    expect([](const EndpointLine& line) { return line.closed(); }, "its end is not found");
  }
}

TEST(EndpointTable, WhatOneSaysOfItsEndpointIsFound) {
  const SmallPool pool(room_for_the_table);
  expect_held_in_turn("endpoints", pool, "one endpoint in turn", follow_one_endpoint);
}

/// Looks at the lines of slots that are no process's own until so many are as wanted, and calls
/// `seen` at the first such look at each, in the order of slots.
void watch_others(SpaceUser& user, std::size_t wanted,
                  const std::function<bool(const EndpointLine&)>& as_wanted,
                  const std::function<void(std::uint32_t slot, std::size_t number)>& seen) {
  const EndpointTable table = table_of(user);
  const std::uint32_t first = user.pool->info().max_processes;
  std::set<std::uint32_t> done;
  for (int looks = 0; done.size() < wanted; ++looks) {
    user.world.require(looks < 100'000, "they never come");
    const auto lines = table.read_all();
    for (std::uint32_t slot = first; slot < table.count(); ++slot)
      if (lines[slot] && as_wanted(*lines[slot]) && done.insert(slot).second)
        seen(slot, done.size());
    user.world.yield();
  }
}

/// A line that is whole says that the box is one, and a closed one that all that its process has
/// published is there.
void watch_lines(World& world, Puppet& rank, Puppet& one, Puppet&) {
  constexpr std::size_t endpoints = 12;
  std::vector<Address> made;
  Object object;
  rank.does([&](SpaceUser& user) {
    (void)claim(user);  // its own
    object = *user.create("words", 64);
  });
  one.starts([&](SpaceUser& user) {
    watch_others(
        user, endpoints, [](const EndpointLine& line) { return line.open(); },
        [&](std::uint32_t slot, std::size_t) { expect_empty_box(user, slot); });
  });
  rank.does([&](SpaceUser& user) {
    while (made.size() < endpoints) made.push_back(claim(user));
  });
  one.await();
  one.starts([&](SpaceUser& user) {
    watch_others(
        user, endpoints, [](const EndpointLine& line) { return line.closed(); },
        [&](std::uint32_t, std::size_t number) {
          world.require(
              user.pool->memory().observe_word(user.pool->base() + object.offset) >= number,
              "it has closed, and what it published before is not there");
        });
  });
  rank.does([&](SpaceUser& user) {
    EndpointTable table = table_of(user);
    for (std::size_t i = 0; i < endpoints; ++i) {
      user.pool->memory().publish_word(object.data, i + 1);
      table.release(made[i]);
    }
    user.pool->memory().full_fence();
  });
  one.await();
}

TEST(EndpointTable, ALineSaysNothingThatIsNotThere) {
  const SmallPool pool(room_for_the_table);
  const Scenario scenario = in_turn(pool, "lines that are watched", watch_lines);
  expect_held("endpoints", "random schedules", explore(scenario, 10));
  expect_held("endpoints", "late stores", explore(with_late_stores(scenario), 10));
}

/// Threads of one process, of which one closes the process's own slot and the next one takes it.
void change_threads(World& world, Puppet& rank, Puppet&, Puppet&) {
  rank.does([&world](SpaceUser& user) {
    EndpointTable table = table_of(user);
    const auto open_and_close = [&] {
      for (int round = 0; round < 10; ++round) {
        const auto address = table.claim(1);
        world.require(address.has_value(), address ? "" : address.error().message);
        const auto line = table.read(address->slot);
        world.require(line && line->open() && line->generation == address->generation,
                      "the end of an earlier endpoint comes over it");
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

/// Of whoever it was before, on whichever node: the next endpoint of a process's own slot has
/// another address, though the node has a copy of the line from before the last one.
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
                    "two endpoints have one address");
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
