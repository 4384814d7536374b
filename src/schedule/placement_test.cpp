// Chunks on devices: the worked example of CCCL (figure 6), and properties that must hold for all
// numbers of ranks and devices.
#include "schedule/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "schedule/uniform.hpp"

namespace penstock::coll::placement_test {
namespace {

/// 4 ranks, 8 devices: data-30 and data-31 of rank 3 lie on devices 6 and 7.
TEST(Placement, IsThatOfThePapersExample) {
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(device_of(rank, 4, 0, 8), 2 * rank);
    EXPECT_EQ(device_of(rank, 4, 1, 8), 2 * rank + 1);
  }
  // Equation 1: device = data_id mod ND.
  for (std::uint64_t chunk = 0; chunk < 20; ++chunk) {
    EXPECT_EQ(device_of(0, 4, chunk, 8), chunk % 8);
    EXPECT_EQ(device_of(3, 4, chunk, 8), (6 + chunk) % 8);
  }
}

TEST(Placement, SpreadsRanksAndChunksEvenly) {
  for (std::uint32_t ranks = 1; ranks <= 16; ++ranks)
    for (std::uint32_t used = 1; used <= 16; ++used) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << used << " devices");
      std::vector<std::uint32_t> firsts(used);
      for (std::uint64_t rank = 0; rank < ranks; ++rank) {
        ++firsts[device_of(rank, ranks, 0, used)];
        std::set<std::uint32_t> devices;
        for (std::uint64_t chunk = 5; chunk < 5 + used; ++chunk)
          devices.insert(device_of(rank, ranks, chunk, used));
        EXPECT_EQ(devices.size(), used);
      }
      const auto [least, most] = std::minmax_element(firsts.begin(), firsts.end());
      EXPECT_LE(*most - *least, 1u) << "ranks that begin on a device";
    }
}

Problem problem_of(Collective collective, std::uint32_t ranks, std::uint64_t bytes) {
  return uniform_problem(collective, ranks, 0, 0, bytes);
}

TEST(Placement, UsesAsManyDevicesAsServeBest) {
  const auto used = [](const Problem& problem, std::uint32_t devices) {
    return devices_for(problem, Variant::all, devices);
  };
  EXPECT_EQ(used(problem_of(Collective::allgather, 2, 16 << 20), 3), 2u) << "one for each rank";
  EXPECT_EQ(used(problem_of(Collective::allreduce, 8, 32 << 20), 6), 6u);
  EXPECT_EQ(used(problem_of(Collective::allreduce, 16, 32 << 20), 6), 5u) << "six bar eight";
  EXPECT_EQ(used(problem_of(Collective::scan, 2, 16 << 20), 3), 3u) << "not counted";
  EXPECT_EQ(devices_for(problem_of(Collective::broadcast, 3, 8), Variant::naive, 6), 1u);
}

/// In an alltoall or a reduce_scatter, a rank has a block for every other rank.
TEST(Placement, GoesByTheSizeOfARanksShare) {
  for (std::uint32_t devices = 3; devices <= 8; ++devices)
    for (std::uint64_t bytes = 1 << 16; bytes <= 1 << 27; bytes *= 2) {
      const auto used = [&](std::uint64_t block) {
        return devices_for(problem_of(Collective::alltoall, 6, block), Variant::all, devices);
      };
      EXPECT_EQ(used(bytes / 6), used(bytes / 6 + bytes / 40)) << "the nearest counted size";
    }
}

TEST(Placement, IsTheSameForAllRanks) {
  for (std::uint32_t devices = 1; devices <= 16; ++devices)
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
      Problem own = uniform_problem(Collective::gather, 5, rank, 2, 1 << 20), first = own;
      first.rank = 0;
      EXPECT_EQ(devices_for(own, Variant::all, devices), devices_for(first, Variant::all, devices));
    }
}

/// One more device never reduces the number in use. At least two are used if there are two.
TEST(Placement, UsesNoFewerOfMoreDevices) {
  for (std::size_t i = 0; i < collective_count; ++i)
    for (const std::uint32_t ranks : {2u, 3u, 7u, 16u, 17u, 31u, 32u, 100u})
      for (const std::uint64_t bytes : {0u, 8u, 1u << 16, 3u << 20, 1u << 30}) {
        Problem problem = problem_of(static_cast<Collective>(i), ranks, bytes);
        if (bytes == 0) problem.max_block_bytes.reset();
        std::uint32_t before = 1;
        for (std::uint32_t devices = 1; devices <= 16; ++devices) {
          const std::uint32_t used = devices_for(problem, Variant::all, devices);
          EXPECT_LE(used, devices);
          EXPECT_GE(used, std::min(devices, 2u));
          EXPECT_GE(used, before);
          before = used;
        }
      }
}

struct Case {
  std::uint32_t ranks, devices, slots;
  bool sequential;
};

template <class Check>
void for_all(const Check& check) {
  for (std::uint32_t ranks = 1; ranks <= 9; ++ranks)
    for (std::uint32_t devices = 1; devices <= 12; ++devices)
      for (std::uint32_t slots : {4u, 5u})
        for (const bool sequential : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << ranks << " ranks, " << devices << " devices, " << slots);
          check(Case{ranks, devices, slots, sequential});
        }
}

/// Checks chunks in flight at once, of all ranks and both halves.
TEST(Placement, GivesEachChunkASlotOfItsOwn) {
  for_all([](const Case& c) {
    const Placing placing(c.ranks, c.devices, c.slots, c.sequential);
    EXPECT_EQ(placing.has(1), c.devices == 1 || c.sequential);
    EXPECT_FALSE(placing.has(c.devices + 1));
    std::set<std::pair<std::uint32_t, std::uint64_t>> needed;
    for (std::uint32_t used = 1; used <= c.devices; ++used) {
      if (!placing.has(used)) continue;
      for (std::uint64_t first = 0; first < 2 * (used + c.slots); first += c.slots) {
        std::set<std::pair<std::uint32_t, std::uint64_t>> taken;
        for (std::uint64_t rank = 0; rank < c.ranks; ++rank)
          for (std::uint64_t half = 0; half < halves; ++half)
            for (std::uint64_t chunk = first; chunk < first + c.slots; ++chunk) {
              const Place place = placing.place_of(rank, half, chunk, used);
              EXPECT_EQ(place.device, device_of(rank, c.ranks, chunk, used));
              ASSERT_LT(place.slot, placing.slots_on(place.device));
              ASSERT_TRUE(taken.emplace(place.device, place.slot).second) << used << " used";
            }
        needed.insert(taken.begin(), taken.end());
      }
    }
    std::uint64_t slots = 0;
    for (std::uint32_t device = 0; device < c.devices; ++device) slots += placing.slots_on(device);
    EXPECT_EQ(needed.size(), slots) << "none is left over";
  });
}

/// Calls may use any number of devices.
TEST(Placement, KeepsTheSlotsOfRanksAndHalvesApart) {
  const Placing placing(5, 6, 4, true);
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::set<std::uint64_t>> owners;
  for (std::uint32_t used = 1; used <= 6; ++used)
    for (std::uint64_t rank = 0; rank < 5; ++rank)
      for (std::uint64_t half = 0; half < halves; ++half)
        for (std::uint64_t chunk = 0; chunk < 30; ++chunk) {
          const Place place = placing.place_of(rank, half, chunk, used);
          owners[{place.device, place.slot}].insert(rank * halves + half);
        }
  for (const auto& [place, those] : owners)
    EXPECT_EQ(those.size(), 1u) << "device " << place.first << ", slot " << place.second;
}

TEST(Placement, OneDeviceTakesNoMoreThanTheSlots) {
  for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
    const Placing placing(ranks, 1, 4, true);
    EXPECT_EQ(placing.slots_on(0), std::uint64_t{ranks} * halves * 4);
    EXPECT_EQ(placing.place_of(ranks - 1, 1, 6, 1), (Place{0, ((ranks - 1) * halves + 1) * 4 + 2}));
  }
}

}  // namespace
}  // namespace penstock::coll::placement_test
