// Tiles of mailboxes, and a receiver's reads of its box: others find what one has made, although
// their nodes hold old copies of the box, of its directory and of the tile's earlier contents.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "sim/tests/endpoint_tables.hpp"
#include "sim/tests/in_turn.hpp"
#include "transport/mailbox.hpp"
#include "transport/test_tiles.hpp"

namespace penstock::sim {
namespace {

using transport::EndpointTable;
using transport::Mailbox;
using transport::TilesState;

transport::MailboxWords make_words(SpaceUser& user, std::uint32_t owner, std::uint32_t sender) {
  EndpointTable table = table_of(user);
  const auto words = table.words(owner, sender);
  user.world.require(words.has_value(), words ? "" : words.error().message);
  return *words;
}

/// Reads both copies anew.
transport::TilesStates states_of(SpaceUser& user) {
  return transport::tiles_states(*user.arena, 0);
}

/// In space with earlier contents.
void make_tiles_in_turn(World& world, Puppet& rank, Puppet& one, Puppet& other) {
  constexpr std::uint32_t tiles = 12;
  for (std::uint32_t made = 0; made < tiles; ++made) {
    Puppet& maker = made % 2 == 0 ? rank : other;
    maker.does([&](SpaceUser& user) { (void)make_words(user, made, 0); });
    one.does([&](SpaceUser& user) {
      const EndpointTable table = table_of(user);
      const auto entry = table.tiles().find({made, 0});
      world.require(entry.has_value(), "the tile is not found");
      std::vector<std::uint64_t> words(transport::tile_bytes / 8);
      user.pool->memory().observe_bulk(words.data(),
                                       table.tiles().at(transport::TileEntry::offset(*entry)),
                                       transport::tile_bytes);
      world.require(std::all_of(words.begin(), words.end(), [](auto word) { return word == 0; }),
                    "the tile holds other objects' words");
      for (const TilesState& state : states_of(user))
        world.require(
            state.taken == made + 1 && state.checksum == transport::checksum_of(state, table.key()),
            "one of the two copies is stale");
    });
  }
}

TEST(Mailbox, ATileIsFoundAndEmpty) {
  const SmallPool pool(room_for_the_table);
  expect_held_in_turn("endpoints", pool, "tiles in turn", make_tiles_in_turn);
}

/// It is stopped anywhere while it takes a tile: once an entry names the tile, the tile counts as
/// taken.
void watch_tiles(World& world, Puppet& rank, Puppet& one, Puppet&) {
  constexpr std::uint32_t tiles = 20, operations_to_take_one = 60;
  rank.does([](SpaceUser& user) { (void)table_of(user); });
  for (std::uint32_t made = 0; made < tiles; ++made) {
    one.starts([&](SpaceUser& user) {
      const EndpointTable table = table_of(user);
      while (!table.tiles().find({made, 0})) world.yield();
      const auto states = states_of(user);
      world.require(std::any_of(states.begin(), states.end(),
                                [&](const TilesState& state) {
                                  return state.taken == made + 1 &&
                                         state.checksum ==
                                             transport::checksum_of(state, table.key());
                                }),
                    "the tile could be taken again");
    });
    std::optional<EndpointTable> table;
    rank.does([&](SpaceUser& user) { table.emplace(table_of(user)); });
    const auto take = [&](SpaceUser&) {
      world.require(table->words(made, 0).has_value(), "no tile");
    };
    stop_within(world, operations_to_take_one, rank, take, one);
  }
}

TEST(Mailbox, ATileThatIsNamedIsTaken) {
  const SmallPool pool(room_for_the_table);
  expect_held_with_late_stores("endpoints", pool, "tiles that are watched", watch_tiles, 20);
}

/// From a sender whose entry is not in the first line of the directory.
void notice_a_far_sender(World& world, const SimulatedPool& pool) {
  constexpr std::uint32_t owner = 1, next_owner = 2, sender = 500;
  Puppet receiver(world, pool, 0), sends(world, pool, 1);
  std::optional<EndpointTable> table;
  std::optional<Mailbox> mailbox;
  const auto sweep = [&](SpaceUser& user) {
    std::uint64_t found = 0;
    mailbox->drop_copies(mailbox->whole());
    user.pool->memory().load_fence();
    mailbox->sweep(mailbox->whole(), [&](transport::Peer from, std::uint64_t word) {
      world.require(from == sender, "another sender is heard");
      found = word;
      return true;
    });
    return found;
  };
  const auto publish = [&](void* transport::MailboxWords::*which, std::uint64_t word) {
    sends.does([&](SpaceUser& user) {
      user.pool->memory().publish_word(
          static_cast<std::byte*>(make_words(user, owner, sender).*which), word);
      user.pool->memory().full_fence();
    });
  };
  receiver.does([&](SpaceUser& user) {
    table.emplace(table_of(user));
    mailbox.emplace(*table, user.pool->memory(), owner);
    std::vector<std::byte> copies(table->tiles().layout().box_bytes());
    for (const std::uint32_t each : {owner, next_owner})
      user.pool->memory().observe_bulk(copies.data(), table->tiles().box(each), copies.size());
    world.require(mailbox->lines() == 0, "lines of nobody");
  });
  sends.does([&](SpaceUser& user) {
    (void)make_words(user, owner, sender);
    (void)make_words(user, next_owner, sender);
  });
  receiver.does([&](SpaceUser& user) {
    (void)sweep(user);
    world.require(mailbox->lines() == 1, "the line is not found");
    const Mailbox another(*table, user.pool->memory(), next_owner);
    world.require(another.lines() == 1, "the line is not found by the slot's next owner");
  });
  for (const std::uint64_t word : {7, 8}) {
    publish(&transport::MailboxWords::announcement, word);
    receiver.does([&](SpaceUser& user) {
      world.require(sweep(user) == word, "the sender is not heard");
      world.require(!mailbox->rung(), "nobody has rung");
    });
  }
  publish(&transport::MailboxWords::bell, 7);
  receiver.does([&](SpaceUser& user) {
    mailbox->drop_bell();
    user.pool->memory().load_fence();
    world.require(mailbox->rung(), "the bell is not heard");
  });
  for (Puppet* puppet : {&receiver, &sends}) puppet->end();
}

TEST(Mailbox, AFarSenderIsHeard) {
  SimulatedPool pool({.max_processes = 512});
  make_table(pool);
  Scenario scenario = pool.scenario("a far sender", 3);
  scenario.body = [&pool](World& world) {
    world.spawn(2, [&world, &pool] { notice_a_far_sender(world, pool); });
  };
  expect_held("endpoints", "random schedules", explore(scenario, 10));
  expect_held("endpoints", "random schedules", explore(with_lasting_copies(scenario), 5));
}

}  // namespace
}  // namespace penstock::sim
