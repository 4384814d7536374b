// What one says of its endpoint the others find, though their nodes have old copies of its line, of
// its box and of the table: one step after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/tests/in_turn.hpp"
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
    one.does([&](SpaceUser& user) {
      const EndpointTable table = table_of(user);
      std::vector<std::uint64_t> words(table.tiles().layout().box_bytes() / 8);
      user.pool->memory().observe_bulk(words.data(), table.tiles().box(address.slot), 8 * words.size());
      world.require(std::all_of(words.begin(), words.end(), [](auto word) { return word == 0; }),
                    "its box has words of others");
    });
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

/// The slot that was closed last is the next one's, whoever that is.
void pass_a_slot_on(World& world, Puppet& rank, Puppet& one, Puppet& other) {
  for (Puppet* puppet : {&rank, &one, &other})
    puppet->does([](SpaceUser& user) { (void)claim(user); });  // its own
  Address before{};
  for (int round = 0; round < 3; ++round)
    for (Puppet* puppet : {&rank, &one}) {
      Address now, more;
      puppet->does([&](SpaceUser& user) { now = claim(user); });
      world.require(round == 0 || (now.slot == before.slot && now.generation > before.generation),
                    "two endpoints have one address");
      other.does([&](SpaceUser& user) { more = claim(user); });
      world.require(more.slot != now.slot, "two have one slot");
      other.does([&](SpaceUser& user) { release(user, more); });
      puppet->does([&](SpaceUser& user) { release(user, now); });
      before = now;
    }
}

TEST(EndpointTable, ASlotThatGoesFromHandToHandIsAnewEachTime) {
  const SmallPool pool(room_for_the_table);
  expect_held_in_turn("endpoints", pool, "a slot in turn", pass_a_slot_on);
}

}  // namespace
}  // namespace penstock::sim
