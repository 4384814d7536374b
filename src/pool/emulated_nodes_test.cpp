#include "pool/emulated_nodes.hpp"

#include <gtest/gtest.h>

#include <map>

namespace penstock::pool {
namespace {

TEST(EmulatedNodes, DealRanksInBlocksAsMpich) {
  // 7 ranks on 3 nodes: 3 + 2 + 2
  const std::uint32_t expected[] = {0, 0, 0, 1, 1, 2, 2};
  for (std::uint32_t rank = 0; rank < 7; ++rank) {
    EXPECT_EQ(emulated_node_of(rank, 7, 3, true), expected[rank]) << rank;
    EXPECT_EQ(emulated_node_of(rank, 7, 3, false), rank % 3) << rank;
  }
  EXPECT_EQ(emulated_node_of(1, 2, 5, true), 1u);  // more nodes than ranks
  EXPECT_EQ(emulated_node_of(5, 8, 1, true), 0u);
}

TEST(EmulatedNodes, CountLocalRanksByNode) {
  for (const bool by_block : {true, false}) {
    for (std::uint32_t nodes = 1; nodes <= 5; ++nodes) {
      std::map<std::uint32_t, std::uint32_t> before;
      for (std::uint32_t rank = 0; rank < 7; ++rank)
        EXPECT_EQ(local_rank_of(rank, 7, nodes, by_block),
                  before[emulated_node_of(rank, 7, nodes, by_block)]++)
            << rank << " on " << nodes;
    }
  }
}

}  // namespace
}  // namespace penstock::pool
