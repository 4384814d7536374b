// Slots in the memory of each device.
#include "coll/slots.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace penstock::coll {
namespace {

TEST(Slots, OfOneDeviceLieAsTheirPlacementSays) {
  const Slots slots(nullptr, 128, 5, {.shape = {.slots = 5, .slot_bytes = 64}});
  const Placing placing(5, 1, 5, false);
  EXPECT_TRUE(slots.has(1));
  for (std::uint64_t i = 0; i < 200; ++i)
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(slots.at(1, i % 5, i / 7, i)),
              128 + 64 * placing.place_of(i % 5, i / 7 % 2, i, 1).slot);
}

/// Uses areas of at most 3 slots. All slots are apart, and inside their areas.
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
    EXPECT_FALSE(slots.has(1));
    for (std::uint32_t used = 2; used <= devices; ++used)
      for (std::uint64_t rank = 0; rank < 4; ++rank)
        for (std::uint64_t chunk = 0; chunk < 12; ++chunk) {
          const auto at = reinterpret_cast<std::uint64_t>(slots.at(used, rank, 3, chunk));
          std::size_t area = 0;
          while (area + 1 < areas.size() && options.slot_areas[area + 1] <= at) ++area;
          EXPECT_LE(at + 64, options.slot_areas[area] + areas[area].bytes);
          EXPECT_EQ(areas[area].device, device_of(rank, 4, chunk, used));
        }
  }
}

/// Ranks may be dealt to nodes in blocks or in turn: each node's slots lie on all devices.
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
        ++ranks_on[{options.nodes[rank], slots.device_of(devices, rank, 0)}];
      ASSERT_EQ(ranks_on.size(), 2 * devices);
      for (const auto& [where, count] : ranks_on)
        EXPECT_EQ(count, static_cast<int>(8 / devices)) << where.first << " " << where.second;
    }
  }
}

}  // namespace
}  // namespace penstock::coll
