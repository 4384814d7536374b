// Which calls are flagged, and the flags.
#include "coll/flagged_program.hpp"

#include <gtest/gtest.h>

#include <set>

#include "schedule/flagged_units.hpp"
#include "schedule/test_calls.hpp"
#include "schedule/uniform.hpp"

namespace penstock::coll::flagged_program_test {
namespace {

bool is_flagged(Collective collective, std::uint32_t ranks, std::uint64_t bytes,
                std::uint64_t longest = default_flagged_bytes) {
  const Shape shape{.direct = true, .flagged_bytes = flagged_bytes_for(ranks, longest)};
  return coll::is_flagged(uniform_problem(collective, ranks, 0, 0, bytes), shape, longest);
}

TEST(FlaggedPrograms, TakeCallsUpToALimit) {
  constexpr std::uint64_t most = default_flagged_bytes;
  for (const Collective collective : {Collective::broadcast, Collective::allreduce}) {
    EXPECT_TRUE(is_flagged(collective, 2, 4));
    EXPECT_TRUE(is_flagged(collective, 2, most));
    EXPECT_FALSE(is_flagged(collective, 2, most + 4));
    EXPECT_FALSE(is_flagged(collective, 2, 0));
    EXPECT_TRUE(is_flagged(collective, 2, 100, 100));
    EXPECT_FALSE(is_flagged(collective, 2, 104, 100));
  }
  // The limit on the whole lines that one rank reads.
  EXPECT_TRUE(is_flagged(Collective::allgather, 9, 4096));
  EXPECT_FALSE(is_flagged(Collective::allgather, 9, 4100));
  EXPECT_FALSE(is_flagged(Collective::allgather, 2, 100, 0));
  EXPECT_FALSE(is_flagged(Collective::barrier, 2, 0));
  EXPECT_TRUE(is_flagged(Collective::allreduce, max_flagged_ranks, 4));
  EXPECT_FALSE(is_flagged(Collective::allreduce, max_flagged_ranks + 1, 4));
  EXPECT_FALSE(is_flagged(Collective::allreduce, 1, 4));
}

TEST(FlaggedPrograms, TakeNoCallOfUnknownSizes) {
  Problem problem = uniform_problem(Collective::alltoall, 2, 0, 0, 100);
  const Shape shape{.direct = true, .flagged_bytes = flagged_bytes_for(2, 1000)};
  EXPECT_TRUE(coll::is_flagged(problem, shape, 1000));
  EXPECT_FALSE(coll::is_flagged(problem, {.direct = true}, 1000));
  problem.max_block_bytes.reset();
  EXPECT_FALSE(coll::is_flagged(problem, shape, 1000));
}

/// All parts lie in the block, and none shares a unit with another.
TEST(FlaggedPrograms, PublishPartsOfWholeUnits) {
  for (const Collective collective : {Collective::alltoall, Collective::reduce_scatter}) {
    for (const std::uint32_t ranks : {2u, 5u, 48u}) {
      const Shape shape{.flagged_bytes = flagged_bytes_for(ranks, default_flagged_bytes)};
      std::uint64_t bytes = default_flagged_bytes;
      while (!is_flagged(collective, ranks, bytes)) bytes -= 4;
      const Plan plan{.slot_bytes = shape.flagged_bytes, .slots = 2, .eager = true};
      const auto schedule = build(uniform_problem(collective, ranks, 1, 0, bytes), plan);
      ASSERT_TRUE(schedule);
      const FlaggedProgram program = flagged_program_of(*schedule);
      EXPECT_EQ(program.publishes.size(), ranks - 1);
      std::set<std::uint64_t> units;
      for (const std::uint32_t number : program.publishes) {
        const Step& step = schedule->steps[number];
        EXPECT_EQ(step.at % unit_payload, 0u);
        EXPECT_LE(step.at + units_of(step.span.bytes) * unit_payload, shape.flagged_bytes);
        for (std::uint32_t i = 0; i < units_of(step.span.bytes); ++i)
          EXPECT_TRUE(units.insert(step.at / unit_payload + i).second);
      }
    }
  }
}

/// A flag comes again only after both blocks were cleared.
TEST(FlaggedUnits, KeepFlagsApartUntilBlocksAreCleared) {
  constexpr std::uint64_t again = 1ull << 31;
  constexpr std::uint64_t calls[] = {1, 2, 1ull << 30, again - 1, again, 1ull << 40};
  for (const std::uint64_t call : calls) {
    EXPECT_NE(flag_of(call), 0u);
    EXPECT_EQ(flag_of(call), flag_of(call + again));
    for (std::uint64_t distance = 1; distance < again; distance *= 2)
      EXPECT_NE(flag_of(call), flag_of(call + distance));
  }
  for (const std::uint64_t period : {1u, 2u, 7u}) {
    const std::uint64_t end = period << 30;
    EXPECT_TRUE(clears_block(end - 1) && clears_block(end - 2));
    EXPECT_FALSE(clears_block(end - 3) || clears_block(end) || clears_block(end + 1));
  }
}

}  // namespace
}  // namespace penstock::coll::flagged_program_test
