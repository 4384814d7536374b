// Another node finds the statistics that an endpoint publishes for each of its peers: in the rows
// of its slot, and for further peers in objects of its own.
#include "transport/peer_statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "sim/tests/endpoint_tables.hpp"
#include "sim/tests/in_turn.hpp"

namespace penstock::sim {
namespace {

using transport::Peer;
using transport::PeerStatistics;

constexpr Peer peers = transport::rows_of_slot + 3;

/// The number of rows of the slot's endpoint that say what round `round` has published.
std::uint64_t rows_of(SpaceUser& user, std::uint32_t slot, std::uint64_t round) {
  const auto rows = transport::peer_counts(*user.arena);
  return std::count_if(rows.begin(), rows.end(), [&](const auto& row) {
    return row.endpoint == slot && row.counts.messages_sent == 100 * round + row.peer;
  });
}

void follow_statistics(World& world, Puppet& rank, Puppet& one, Puppet&) {
  std::unique_ptr<PeerStatistics> statistics;
  std::uint32_t slot = 0;
  rank.does([&](SpaceUser& user) {
    const auto address = table_of(user).claim(1);
    world.require(address.has_value(), address ? "" : address.error().message);
    slot = address->slot;
    statistics = std::make_unique<PeerStatistics>(*user.arena, table_of(user), *address);
    for (Peer peer = 0; peer < peers; ++peer) statistics->make_room(peer);
  });
  for (std::uint64_t round = 1; round <= 4; ++round) {
    rank.does([&](SpaceUser& user) {
      for (Peer peer = 0; peer < peers; ++peer)
        statistics->publish(peer, 1, {.messages_sent = 100 * round + peer});
      user.pool->memory().store_fence();
    });
    one.does([&](SpaceUser& user) {
      wait_until(world, "a row for each peer", [&] { return rows_of(user, slot, round) == peers; });
    });
  }
  rank.does([&](SpaceUser&) { statistics.reset(); });
}

TEST(PeerStatistics, OthersFindARowForEachPeer) {
  const SmallPool pool(room_for_the_table);
  expect_held_in_turn("endpoints", pool, "statistics of many peers", follow_statistics);
  const Scenario scenario = in_turn(pool, "statistics of many peers", follow_statistics);
  expect_held("endpoints", "late stores", explore(with_late_stores(scenario), 10));
}

}  // namespace
}  // namespace penstock::sim
