// The engine uses as many devices of a pool as serve it best, by the model.
#include "model/devices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "schedule/placement.hpp"
#include "schedule/uniform.hpp"

namespace penstock::model {
namespace {

using coll::Collective;

constexpr std::array collectives{
    Collective::broadcast, Collective::gather,   Collective::scatter,        Collective::reduce,
    Collective::allgather, Collective::alltoall, Collective::reduce_scatter, Collective::allreduce};
constexpr std::uint32_t max_devices = 8;
constexpr double rounding = 1.006;
/// A platform loses no more than this where the last devices would make another one slower.
constexpr double worst_loss = 1.6;

/// The engine's seconds on 1, 2, ... devices: those of the number that it goes round.
std::vector<double> as_the_engine_does(const PoolCase& call, const std::vector<double>& seconds) {
  const auto problem = coll::uniform_problem(call.collective, call.ranks, 0, 0, call.block);
  std::vector<double> chosen;
  for (std::uint32_t devices = 1; devices <= max_devices; ++devices)
    chosen.push_back(seconds[coll::devices_for(problem, coll::Variant::all, devices) - 1]);
  return chosen;
}

void check(const PoolCase& call) {
  for (const char* name : {"cccl", "gpu", "cpu"}) {
    SCOPED_TRACE(testing::Message() << name_of(call.collective) << " of blocks of " << call.block
                                    << " bytes on " << call.ranks << " ranks, platform " << name);
    const auto all = seconds_by_devices(**find_platform(name), call, max_devices);
    ASSERT_TRUE(all) << all.error().message;
    const auto chosen = as_the_engine_does(call, *all);
    for (std::size_t i = 1; i < chosen.size(); ++i) {
      EXPECT_LE(chosen[i], chosen[i - 1] * rounding) << "slower on " << i + 1;
      EXPECT_LE(chosen[i], (*all)[i] * worst_loss) << i + 1 << " devices: all are faster";
    }
  }
}

/// On three devices two ranks of an allgather met on one device at every chunk, and were slower
/// than on two. print_placement_table looks at all calls of the table.
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

using Used = std::vector<std::uint32_t>;

TEST(Devices, ThatSlowACallAreLeftOut) {
  EXPECT_EQ(devices_to_use({{8, 4, 5, 4.5, 3.9, 4}}), (Used{1, 2, 2, 2, 5, 5}));
  EXPECT_EQ(devices_to_use({{4, 5, 5}}), (Used{1, 2, 3})) << "two are always used";
}

TEST(Devices, ServeAllPlatforms) {
  EXPECT_EQ(devices_to_use({{8, 4, 3, 2}, {8, 4, 5, 4}}), (Used{1, 2, 2, 4}));
}

/// With the third one, the much better fourth one would be slower on the second platform.
TEST(Devices, AreLeftOutForLaterOnes) {
  EXPECT_EQ(devices_to_use({{8, 4, 3.9, 2}, {8, 4, 3.5, 3.8}}), (Used{1, 2, 2, 4}));
}

}  // namespace
}  // namespace penstock::model
