// The sequence of CG's messages: their counts are those of its description, and each message has a
// receiver. tests/e2e/scaling_test.py compares it with the program that sends them.
#include "model/cg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::model {
namespace {

/// Class D, for each rank in an outer iteration: vector messages of the given length, and scalar
/// ones.
TEST(Cg, SendsWhatItsDescriptionSays) {
  struct Row {
    std::uint32_t ranks;
    std::uint64_t bytes, vectors, scalars;
  };
  const CgClass size = *cg_class("D");
  EXPECT_EQ(size.iterations, 100u);
  for (const Row& row :
       {Row{8, 3000000, 78, 106}, Row{16, 3000000, 78, 106}, Row{32, 1500000, 104, 159},
        Row{64, 1500000, 104, 159}, Row{128, 750000, 130, 212}, Row{256, 750000, 130, 212}}) {
    const auto exchanges = *cg_exchanges(size, row.ranks, row.ranks - 1);
    std::uint64_t vectors = 0, scalars = 0;
    double flops = 0;
    for (const CgExchange& each : exchanges) {
      vectors += each.elements * 8 == row.bytes;
      scalars += each.elements <= 2;
      flops += each.flops;
    }
    EXPECT_EQ(vectors, row.vectors) << row.ranks;
    EXPECT_EQ(scalars, row.scalars) << row.ranks;
    EXPECT_DOUBLE_EQ(flops, cg_flops(size, row.ranks));
  }
}

/// Two ranks that exchange messages do so in the same order, with the same tags and sizes.
TEST(Cg, PartnersAgree) {
  const CgClass size = *cg_class("C");
  for (const std::uint32_t ranks : {2u, 4u, 8u, 16u}) {
    std::vector<std::vector<CgExchange>> all;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      all.push_back(*cg_exchanges(size, ranks, rank));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(all[rank].size(), all[0].size());
      for (std::size_t i = 0; i < all[rank].size(); ++i) {
        const CgExchange& mine = all[rank][i];
        const CgExchange& other = all[mine.with][i];
        EXPECT_EQ(other.with, rank);
        EXPECT_EQ(other.tag, mine.tag);
        EXPECT_EQ(other.elements, mine.elements);
      }
    }
  }
}

TEST(Cg, RefusesWhatCannotBe) {
  using testing::HasSubstr;
  EXPECT_THAT(cg_class("E").error().message, HasSubstr("no class 'E'; there are S, W, A, B, C, D"));
  EXPECT_THAT(cg_exchanges(*cg_class("S"), 12, 0).error().message,
              HasSubstr("a power of two is needed, such as 8"));
  EXPECT_THAT(cg_exchanges(*cg_class("S"), 256, 0).error().message,
              HasSubstr("class S of CG has 1400 elements, which 256 ranks do not divide"));
}

}  // namespace
}  // namespace penstock::model
