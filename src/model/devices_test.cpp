// The engine uses as many devices of a pool as serve it best, by the model.
#include "model/devices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "coll/placement.hpp"
#include "coll/uniform.hpp"

namespace penstock::model {
namespace {

using coll::Collective;

constexpr std::array collectives{
    Collective::broadcast, Collective::gather,   Collective::scatter,        Collective::reduce,
    Collective::allgather, Collective::alltoall, Collective::reduce_scatter, Collective::allreduce};
constexpr std::uint32_t max_devices = 8;
constexpr double rounding = 1.005;

/// The engine's seconds on 1, 2, ... devices: those of the number that it goes round.
std::vector<double> as_the_engine_does(const PoolCase& call, const std::vector<double>& seconds) {
  const auto problem = coll::uniform_problem(call.collective, call.ranks, 0, 0, call.block);
  std::vector<double> chosen;
  for (std::uint32_t devices = 1; devices <= max_devices; ++devices)
    chosen.push_back(seconds[coll::devices_for(problem, coll::Variant::all, devices) - 1]);
  return chosen;
}

void check(const PoolCase& call) {
  SCOPED_TRACE(testing::Message() << name_of(call.collective) << " of blocks of " << call.block
                                  << " bytes on " << call.ranks << " ranks");
  const auto all = seconds_by_devices(**find_platform("gpu"), call, max_devices);
  ASSERT_TRUE(all) << all.error().message;
  const auto chosen = as_the_engine_does(call, *all);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    EXPECT_LE(chosen[i], (*all)[i] * rounding) << i + 1 << " devices: all of them are faster";
    EXPECT_LE(chosen[i], chosen[i > 0 ? i - 1 : 0] * rounding) << "slower on " << i + 1;
  }
}

/// On three devices two ranks of an allgather met on one device at every chunk, and were slower
/// than on two. The whole table is printed by print_placement_table.
TEST(Devices, OneMoreMakesNoCallSlower) {
  for (const Collective collective : collectives)
    for (const std::uint32_t ranks : {2u, 3u, 4u, 5u, 6u, 8u, 9u, 12u, 16u})
      for (const unsigned log : {16u, 18u, 20u, 21u, 22u})
        check({collective, ranks, 1, block_of(collective, ranks, 1ull << log)});
}

TEST(Devices, OneMoreMakesNoLongCallSlower) {
  for (const Collective collective : collectives)
    for (const std::uint32_t ranks : {2u, 3u, 8u})
      check({collective, ranks, 1, block_of(collective, ranks, 16 << 20)});
  check({Collective::allreduce, 8, 1, 32 << 20});
}

TEST(Devices, AreComparedWithTheBestOfFewer) {
  const std::vector<bool> slower{false, false, true, true, false, true};
  EXPECT_EQ(slower_with_last({8, 4, 5, 4.5, 3.9, 4}), slower);
  EXPECT_EQ(slower_with_last({4, 5}), (std::vector<bool>{false, false})) << "two are always used";
}

}  // namespace
}  // namespace penstock::model
