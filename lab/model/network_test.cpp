// Rings and chains, compared with formulas of their bytes and steps.
#include "model/network.hpp"

#include <gtest/gtest.h>

#include "model/collectives.hpp"

namespace penstock::model {
namespace {

using coll::Collective;

constexpr Network wire{"a wire", 10, 0.5, 2, 40, "by hand"};
constexpr double rate = 5e9, latency = 2e-6;
constexpr double block = 8e6;

double seconds(Collective collective, std::uint32_t ranks, std::uint32_t per_node = 1) {
  const auto found =
      network_seconds(wire, collective, ranks, per_node, static_cast<std::uint64_t>(block));
  EXPECT_TRUE(found);
  return *found;
}

TEST(Network, RingsTakeTheirBytesAndTheirSteps) {
  for (const double n : {2.0, 3.0, 8.0}) {
    const auto ranks = static_cast<std::uint32_t>(n);
    const double ring = (n - 1) * (block / rate + latency);
    EXPECT_NEAR(seconds(Collective::allgather, ranks), ring, 1e-9);
    EXPECT_NEAR(seconds(Collective::reduce_scatter, ranks), ring, 1e-9);
    EXPECT_NEAR(seconds(Collective::allreduce, ranks), 2 * (n - 1) * (block / n / rate + latency),
                1e-9);
    EXPECT_NEAR(seconds(Collective::alltoall, ranks), (n - 1) * block / rate + latency, 1e-9);
    EXPECT_NEAR(seconds(Collective::gather, ranks), (n - 1) * block / rate + latency, 1e-9);
    EXPECT_NEAR(seconds(Collective::scatter, ranks), (n - 1) * block / rate + latency, 1e-9);
    // 64 pieces, one behind the other.
    const double piece = block / 64 / rate;
    EXPECT_NEAR(seconds(Collective::broadcast, ranks),
                64 * piece + (n - 2) * piece + (n - 1) * latency, 1e-9);
    EXPECT_NEAR(seconds(Collective::reduce, ranks), seconds(Collective::broadcast, ranks), 1e-12);
  }
}

/// Only every fourth message of the ring leaves its host, and none waits for the port.
TEST(Network, RanksOfAHostUseItsMemory) {
  const double alone = 15 * (block / rate + latency);
  const double together = seconds(Collective::allgather, 16, 4);
  EXPECT_LE(together, alone + 1e-9);
  EXPECT_GE(together, alone / 2);
  // One host: all messages use its memory, 40 GB/s for 16 ranks.
  EXPECT_NEAR(seconds(Collective::allgather, 16, 16), 15 * (16 * block / 40e9 + latency), 1e-9);
}

TEST(Network, SaysWhatItHasNoModelOf) {
  const auto refused = network_seconds(wire, Collective::scan, 4, 1, 64);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "scan has no model by messages");
}

}  // namespace
}  // namespace penstock::model
