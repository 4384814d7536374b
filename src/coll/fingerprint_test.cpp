#include "coll/fingerprint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::coll {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::uint64_t sum_of_floats = reduction_word(Datatype::float32, Operation::sum);

Problem allreduce(std::uint64_t elements, std::uint32_t element_bytes = 4) {
  const Block block{0, elements * element_bytes};
  return {.collective = Collective::allreduce,
          .ranks = 3,
          .element_bytes = element_bytes,
          .input = {block},
          .output = {block},
          .max_block_bytes = block.bytes};
}

Problem broadcast(std::uint32_t root, std::uint32_t rank, std::uint64_t bytes) {
  Problem problem{.collective = Collective::broadcast, .ranks = 3, .rank = rank, .root = root};
  (rank == root ? problem.input : problem.output) = {{0, bytes}};
  problem.max_block_bytes = bytes;
  return problem;
}

struct MadeCall {
  Problem problem;
  std::uint64_t reduction = 0;
};

/// How the first rank describes the second after both have made their calls; "" if all are the
/// same.
std::string difference(const std::vector<MadeCall>& ours, const std::vector<MadeCall>& theirs) {
  Fingerprints own, other;
  for (const auto& call : ours) own.begin(facts_of(call.problem), call.reduction);
  for (const auto& call : theirs) other.begin(facts_of(call.problem), call.reduction);
  if (own.current() == other.current()) return "";
  return own.difference(other.current(), 3);
}

TEST(Fingerprint, IsTheSameWhateverPartARankHas) {
  EXPECT_EQ(difference({{broadcast(1, 0, 24)}}, {{broadcast(1, 1, 24)}}), "");
  Problem packed = allreduce(3);
  packed.in_place = true;
  packed.rank = 2;
  EXPECT_EQ(difference({{allreduce(3), sum_of_floats}}, {{packed, sum_of_floats}}), "");
}

TEST(Fingerprint, IgnoresSizesThatSomeRanksDoNotKnow) {
  Problem long_one = broadcast(0, 0, 100), short_one = broadcast(0, 1, 10);
  long_one.max_block_bytes.reset();
  short_one.max_block_bytes.reset();
  EXPECT_EQ(difference({{long_one}}, {{short_one}}), "");
}

TEST(Fingerprint, NamesAnotherRoot) {
  EXPECT_EQ(
      difference({{broadcast(1, 0, 24)}}, {{broadcast(2, 0, 24)}}),
      "calls broadcast of 24 bytes with root 2, and this rank broadcast of 24 bytes with root 1");
}

TEST(Fingerprint, NamesAnotherOperation) {
  EXPECT_EQ(difference({{allreduce(3), sum_of_floats}},
                       {{allreduce(3), reduction_word(Datatype::float32, Operation::maximum)}}),
            "calls allreduce of 3 float32 by maximum, and this rank allreduce of 3 float32 by sum");
}

TEST(Fingerprint, NamesAnotherTypeOfSameElementsOrBytes) {
  const auto sum_of_doubles = reduction_word(Datatype::float64, Operation::sum);
  EXPECT_THAT(difference({{allreduce(4), sum_of_floats}}, {{allreduce(4, 8), sum_of_doubles}}),
              HasSubstr("calls allreduce of 4 float64 by sum"));
  EXPECT_THAT(difference({{allreduce(4), sum_of_floats}}, {{allreduce(2, 8), sum_of_doubles}}),
              HasSubstr("calls allreduce of 2 float64 by sum"));
}

/// As in MPI_Reduce_scatter.
TEST(Fingerprint, NamesTypeAndOperationOfUnequalBlocks) {
  const Problem problem{.collective = Collective::reduce_scatter,
                        .ranks = 3,
                        .element_bytes = 4,
                        .input = {{0, 8}, {8, 16}, {24, 4}},
                        .output = {{0, 8}},
                        .max_block_bytes = 16};
  const auto sum_of_integers = reduction_word(Datatype::int32, Operation::sum);
  const auto maximum_of_floats = reduction_word(Datatype::float32, Operation::maximum);
  EXPECT_EQ(difference({{problem, sum_of_floats}}, {{problem, sum_of_integers}}),
            "calls reduce_scatter of int32 by sum, and this rank reduce_scatter of float32 by sum");
  EXPECT_EQ(
      difference({{problem, sum_of_floats}}, {{problem, maximum_of_floats}}),
      "calls reduce_scatter of float32 by maximum, and this rank reduce_scatter of float32 by sum");
  Problem unknown = problem;
  unknown.max_block_bytes.reset();
  EXPECT_THAT(difference({{unknown, sum_of_floats}}, {{unknown, sum_of_integers}}),
              HasSubstr("calls reduce_scatter of int32 by sum"));
}

TEST(Fingerprint, NamesAnotherSize) {
  EXPECT_THAT(difference({{allreduce(3), sum_of_floats}}, {{allreduce(5), sum_of_floats}}),
              HasSubstr("calls allreduce of 5 float32 by sum"));
}

TEST(Fingerprint, NamesAnotherCollective) {
  EXPECT_THAT(difference({{allreduce(3), sum_of_floats}}, {{{.ranks = 3}}}),
              HasSubstr("calls barrier, and this rank allreduce"));
}

TEST(Fingerprint, NamesAMovementForAReductionAndBack) {
  const MadeCall movement{broadcast(2, 0, 12)}, reduction{allreduce(3), sum_of_floats};
  EXPECT_EQ(difference({reduction}, {movement}),
            "calls broadcast of 12 bytes with root 2, and this rank allreduce of 3 float32 by sum");
  EXPECT_EQ(difference({movement}, {reduction}),
            "calls allreduce of 3 float32 by sum, and this rank broadcast of 12 bytes with root 2");
}

TEST(Fingerprint, NamesAnotherBlockOfARank) {
  Problem one{.collective = Collective::allgather,
              .ranks = 2,
              .input = {{0, 8}},
              .output = {{0, 8}, {8, 16}},
              .max_block_bytes = 16};
  Problem other = one;
  other.output = {{0, 16}, {16, 8}};
  EXPECT_THAT(difference({{one}}, {{other}}), HasSubstr("makes another call than this rank"));
}

TEST(Fingerprint, KeepsAndNamesAnEarlierDifference) {
  const MadeCall same{allreduce(8), sum_of_floats};
  EXPECT_THAT(difference({{broadcast(0, 0, 24)}, same, same}, {{broadcast(1, 0, 24)}, same, same}),
              HasSubstr("2 calls ago called broadcast of 24 bytes with root 1, and this rank "));
  std::vector<MadeCall> ours{{broadcast(0, 0, 24)}}, theirs{{broadcast(1, 0, 24)}};
  for (int i = 0; i < 20; ++i) {
    ours.push_back(same);
    theirs.push_back(same);
  }
  EXPECT_THAT(difference(ours, theirs),
              HasSubstr("makes another call than this rank, or made one earlier"));
}

TEST(Fingerprint, SaysWhatItCannotName) {
  const std::string words =
      difference({{allreduce(1 << 20), sum_of_floats}}, {{allreduce(1 << 21), sum_of_floats}});
  EXPECT_THAT(words, HasSubstr("another size, type or operation"));
  EXPECT_THAT(words, HasSubstr("this rank calls allreduce of 1048576 float32 by sum now"));
  EXPECT_THAT(words, Not(HasSubstr("2097152")));
}

}  // namespace
}  // namespace penstock::coll
