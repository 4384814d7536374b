// Chunks on devices: the worked example of CCCL (figure 6), and what must hold for all numbers of
// ranks and devices.
#include "coll/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "coll/slots.hpp"

namespace penstock::coll {
namespace {

/// 4 ranks, 8 devices: data-30 and data-31 of rank 3 lie on devices 6 and 7.
TEST(Placement, IsThatOfThePapersExample) {
  const Placing own(Placement::own, 4, 8, 4);
  EXPECT_EQ(own.span(), 2u);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(own.device_of(rank, 0), 2 * rank);
    EXPECT_EQ(own.device_of(rank, 1), 2 * rank + 1);
    EXPECT_EQ(own.device_of(rank, 2), 2 * rank);
  }
  // Equation 1: device = data_id mod ND.
  const Placing wide(Placement::wide, 4, 8, 4);
  for (std::uint64_t chunk = 0; chunk < 20; ++chunk) {
    EXPECT_EQ(wide.device_of(0, chunk), chunk % 8);
    EXPECT_EQ(wide.device_of(3, chunk), (3 + chunk) % 8);
  }
}

TEST(Placement, BeginsOnADeviceOfItsOwnInCollectivesOfOneRoot) {
  const Placing wide(Placement::wide, 7, 6, 4);
  for (std::uint32_t rank = 0; rank < 6; ++rank) EXPECT_EQ(wide.device_of(rank, 0), rank);
  EXPECT_EQ(wide.device_of(6, 0), 0u);
}

std::set<std::uint32_t> devices_used(Placement kind, std::uint32_t ranks, std::uint32_t devices) {
  const Placing placing(kind, ranks, devices, 4);
  std::set<std::uint32_t> used;
  for (std::uint64_t rank = 0; rank < ranks; ++rank)
    for (std::uint64_t chunk = 0; chunk < placing.slots(); ++chunk)
      used.insert(placing.device_of(rank, chunk));
  return used;
}

TEST(Placement, UsesAsManyDevicesAsServeBest) {
  EXPECT_EQ(devices_used(Placement::own, 2, 3).size(), 2u) << "one for each rank";
  EXPECT_EQ(devices_used(Placement::own, 4, 7).size(), 4u);
  EXPECT_EQ(devices_used(Placement::own, 12, 8).size(), 6u) << "two ranks on each";
  EXPECT_EQ(devices_used(Placement::own, 2, 7).size(), 4u) << "two for each rank";
  EXPECT_EQ(devices_used(Placement::own, 7, 6).size(), 4u) << "seven ranks go round four";
  EXPECT_EQ(devices_used(Placement::wide, 7, 6).size(), 6u);
  EXPECT_EQ(devices_used(Placement::wide, 7, 5).size(), 4u) << "a reader met the writers on five";
}

/// With a device more never fewer are in use.
TEST(Placement, UsesNoFewerOfMoreDevices) {
  for (const Placement kind : {Placement::wide, Placement::own})
    for (std::uint32_t ranks = 2; ranks <= 16; ++ranks)
      for (std::uint32_t devices = 2; devices <= 16; ++devices)
        EXPECT_GE(devices_used(kind, ranks, devices).size(),
                  devices_used(kind, ranks, devices - 1).size())
            << ranks << " ranks, " << devices << " devices";
}

TEST(Placement, GoesByTheCollective) {
  EXPECT_EQ(placement_of(Collective::broadcast, Variant::all), Placement::wide);
  EXPECT_EQ(placement_of(Collective::gather, Variant::aggregate), Placement::wide);
  EXPECT_EQ(placement_of(Collective::scatter, Variant::all), Placement::wide);
  EXPECT_EQ(placement_of(Collective::reduce, Variant::all), Placement::wide);
  EXPECT_EQ(placement_of(Collective::allgather, Variant::all), Placement::own);
  EXPECT_EQ(placement_of(Collective::allreduce, Variant::all), Placement::own);
  EXPECT_EQ(placement_of(Collective::broadcast, Variant::naive), Placement::sequential);
}

struct Case {
  std::uint32_t ranks, devices, slots;
};

template <class Check>
void for_all(const Check& check) {
  for (std::uint32_t ranks = 1; ranks <= 9; ++ranks)
    for (std::uint32_t devices = 1; devices <= 12; ++devices)
      for (std::uint32_t slots : {4u, 5u}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << devices << " devices, " << slots);
        check(Case{ranks, devices, slots});
      }
}

std::set<std::uint32_t> devices_of(const Placing& placing, std::uint64_t rank) {
  std::set<std::uint32_t> devices;
  for (std::uint64_t chunk = 0; chunk < placing.slots(); ++chunk)
    devices.insert(placing.device_of(rank, chunk));
  return devices;
}

TEST(Placement, SpreadsEvenly) {
  for_all([](const Case& c) {
    for (const Placement kind : {Placement::wide, Placement::own}) {
      const Placing placing(kind, c.ranks, c.devices, c.slots);
      std::map<std::uint32_t, std::uint32_t> users;
      for (std::uint64_t rank = 0; rank < c.ranks; ++rank)
        for (const std::uint32_t device : devices_of(placing, rank)) ++users[device];
      for (const auto& [device, count] : users) EXPECT_EQ(count, users[0]) << "device " << device;
      if (kind == Placement::own && c.devices >= c.ranks && c.ranks > 1) {
        EXPECT_EQ(users[0], 1u) << "ranges exclude each other";
      }
      // No two ranks begin on one device where there are enough.
      std::set<std::uint32_t> firsts;
      for (std::uint64_t rank = 0; rank < c.ranks; ++rank)
        firsts.insert(placing.device_of(rank, 0));
      EXPECT_EQ(firsts.size(), std::min<std::size_t>(c.ranks, users.size()));
    }
  });
}

/// As in the collectives: all placements beside each other, each chunk of the last ones on its way.
TEST(Placement, GivesEachChunkASlotOfItsOwn) {
  for_all([](const Case& c) {
    const Placings placings(c.ranks, c.devices, c.slots, true);
    const Placing wide(Placement::wide, c.ranks, c.devices, c.slots);
    const Placing own(Placement::own, c.ranks, c.devices, c.slots);
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::set<std::vector<std::uint64_t>>> users;
    for (const Placement kind : {Placement::wide, Placement::own, Placement::sequential}) {
      EXPECT_TRUE(placings.has(kind));
      const Placing placing(kind, c.ranks, c.devices, c.slots);
      EXPECT_GE(placing.slots(), c.slots);
      const bool is_wide =
          kind == Placement::wide || c.devices == 1 || (kind == Placement::own && own == wide);
      for (std::uint64_t rank = 0; rank < c.ranks; ++rank)
        for (std::uint64_t half = 0; half < halves; ++half)
          for (std::uint64_t chunk = 0; chunk < 2 * placing.slots(); ++chunk) {
            const Place place = placings.place_of(kind, rank, half, chunk);
            EXPECT_EQ(place.device, placing.device_of(rank, chunk));
            ASSERT_LT(place.slot, placings.slots_on(place.device));
            users[{place.device, place.slot}].insert(
                {is_wide ? 0ull : 1ull + static_cast<std::uint64_t>(kind), rank, half,
                 chunk % placing.slots()});
          }
    }
    std::uint64_t slots = 0;
    for (std::uint32_t device = 0; device < c.devices; ++device) slots += placings.slots_on(device);
    EXPECT_EQ(users.size(), slots) << "none is left over";
    for (const auto& [place, chunks] : users)
      ASSERT_EQ(chunks.size(), 1u) << "device " << place.first << ", slot " << place.second;
  });
}

TEST(Placement, OneDeviceTakesNoMoreThanTheSlots) {
  for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
    const Placings placings(ranks, 1, 4, true);
    EXPECT_EQ(placings.slots_on(0), std::uint64_t{ranks} * halves * 4);
    // As they lay before there were devices.
    EXPECT_EQ(placings.place_of(Placement::own, ranks - 1, 1, 6),
              (Place{0, ((ranks - 1) * halves + 1) * 4 + 2}));
  }
}

TEST(Slots, OfOneDeviceLieAsTheirPlacementSays) {
  const Slots slots(nullptr, 128, 5, {.shape = {.slots = 5, .slot_bytes = 64}});
  const Placings placings(5, 1, 5, false);
  for (const Placement kind : {Placement::wide, Placement::own, Placement::sequential}) {
    EXPECT_TRUE(slots.has(kind));
    for (std::uint64_t i = 0; i < 200; ++i)
      EXPECT_EQ(reinterpret_cast<std::uint64_t>(slots.at(kind, i % 5, i / 7, i)),
                128 + 64 * placings.place_of(kind, i % 5, i / 7 % 2, i).slot);
  }
}

/// In areas of at most 3 slots: all slots apart, and inside.
TEST(Slots, LieInTheAreasOfTheirDevice) {
  for (std::uint32_t devices : {2u, 3u, 6u}) {
    Options options{.shape = {.slots = 4, .slot_bytes = 64, .devices = devices, .area_slots = 3}};
    const auto areas = Communicator::slot_areas(4, options.shape);
    std::uint64_t end = 1000 * 64;
    for (const SlotArea& area : areas) {
      EXPECT_LE(area.bytes, 3 * 64u);
      options.slot_areas.push_back(end);
      end += area.bytes + 64;
    }
    const Slots slots(nullptr, 0, 4, options);
    EXPECT_FALSE(slots.has(Placement::sequential));
    const Placing own(Placement::own, 4, devices, 4);
    for (std::uint64_t rank = 0; rank < 4; ++rank)
      for (std::uint64_t chunk = 0; chunk < 12; ++chunk) {
        const auto at = reinterpret_cast<std::uint64_t>(slots.at(Placement::own, rank, 3, chunk));
        std::size_t area = 0;
        while (area + 1 < areas.size() && options.slot_areas[area + 1] <= at) ++area;
        EXPECT_LE(at + 64, options.slot_areas[area] + areas[area].bytes);
        EXPECT_EQ(areas[area].device, own.device_of(rank, chunk));
      }
  }
}

/// Whether ranks were dealt to nodes in blocks or in turn: each node's slots lie on all devices.
TEST(Slots, OfANodeLieOnAllDevices) {
  constexpr std::uint32_t ranks = 16;
  for (const bool blocks : {true, false}) {
    for (const std::uint32_t devices : {2u, 4u}) {
      Options options{
          .shape = {.slots = 4, .slot_bytes = 64, .devices = devices, .area_slots = 64}};
      options.slot_areas.resize(Communicator::slot_areas(ranks, options.shape).size());
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        options.nodes.push_back(blocks ? 7 - rank / 8 : rank % 2);
      const Slots slots(nullptr, 0, ranks, options);
      std::map<std::pair<std::uint64_t, std::uint32_t>, int> ranks_on;
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        ++ranks_on[{options.nodes[rank], slots.device_of(Placement::own, rank, 1, 0)}];
      ASSERT_EQ(ranks_on.size(), 2 * devices);
      for (const auto& [where, count] : ranks_on)
        EXPECT_EQ(count, static_cast<int>(8 / devices)) << where.first << " " << where.second;
    }
  }
}

}  // namespace
}  // namespace penstock::coll
