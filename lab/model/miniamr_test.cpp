// The sequence of miniAMR's messages: its counts, the neighbours of each rank, and a receiver for
// each message. tests/conformance/miniamr_suite.py compares it with the program that sends them.
#include "model/miniamr.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace penstock::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The numbers of miniAMR's own traces.
TEST(MiniAmr, NumbersItsRanksByBisection) {
  EXPECT_THAT(*amr_grid(1), ElementsAre(1, 1, 1));
  EXPECT_THAT(*amr_grid(16), ElementsAre(4, 2, 2));
  EXPECT_THAT(*amr_grid(256), ElementsAre(8, 8, 4));
  const auto corner = *amr_neighbours(16, 0);
  EXPECT_THAT(corner[0], ElementsAre(4));
  EXPECT_THAT(corner[1], ElementsAre(2));
  EXPECT_THAT(corner[2], ElementsAre(1));
  const auto inner = *amr_neighbours(64, 21);
  EXPECT_THAT(inner[0], ElementsAre(17, 49));
  EXPECT_THAT(inner[1], ElementsAre(7, 23));
  EXPECT_THAT(inner[2], ElementsAre(20, 28));
}

TEST(MiniAmr, NeighboursAreMutual) {
  for (std::uint32_t ranks = 1; ranks <= 256; ranks *= 2) {
    std::size_t faces = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto mine = *amr_neighbours(ranks, rank);
      for (std::uint32_t direction = 0; direction < 3; ++direction) {
        faces += mine[direction].size();
        for (const std::uint32_t other : mine[direction]) {
          EXPECT_NE(other, rank);
          EXPECT_THAT((*amr_neighbours(ranks, other))[direction], testing::Contains(rank));
        }
      }
    }
    const auto [x, y, z] = *amr_grid(ranks);
    EXPECT_EQ(faces, 2 * (3 * ranks - x * y - y * z - z * x)) << ranks;
  }
}

TEST(MiniAmr, SendsWhatItsOptionsSay) {
  const AmrMesh mesh;
  EXPECT_EQ(mesh.face_elements() * 8, 5120u);
  std::istringstream lines(*amr_trace(mesh, 64, 21, 2));
  std::size_t sent = 0, begun = 0, awaited = 0, sums = 0;
  double flops = 0;
  std::string rank, what;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> rank >> what;
    EXPECT_EQ(rank, "21");
    double number = 0;
    words >> number;
    sent += what == "isend";
    begun += what == "isend" || what == "irecv";
    sums += what == "allreduce";
    if (what == "waitall") awaited += static_cast<std::size_t>(number);
    if (what == "compute") flops += number;
  }
  EXPECT_EQ(sent, 2u * 20 * 6);
  EXPECT_EQ(begun, 2 * sent);
  EXPECT_EQ(awaited, begun);
  EXPECT_EQ(sums, 2u * 4 * 40);
  EXPECT_DOUBLE_EQ(flops, 2 * amr_flops(mesh));
}

TEST(MiniAmr, OneRankHasNobodyToSendTo) {
  const std::string text = *amr_trace({}, 1, 0, 1);
  EXPECT_THAT(text, testing::Not(HasSubstr("send")));
  EXPECT_THAT(text, testing::Not(HasSubstr("waitall")));
}

TEST(MiniAmr, RefusesWhatCannotBe) {
  for (const std::uint32_t ranks : {0u, 12u})
    EXPECT_THAT(amr_trace({}, ranks, 0, 1).error().message, HasSubstr("a power of two is needed"));
  EXPECT_THAT(amr_trace({}, 8, 8, 1).error().message, HasSubstr("rank 8 of 8 ranks"));
}

}  // namespace
}  // namespace penstock::model
