#include "coll/plan_override.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::coll {
namespace {

std::string error_of(std::string_view text) {
  const auto parsed = parse_plan_override(text);
  return parsed ? "" : parsed.error().message;
}

TEST(PlanOverride, IsReadFromText) {
  const auto all = *parse_plan_override(
      "variant=aggregate,chunk=64K,algorithm=two_shot,chunks=3,turns=1,form=slots,devices=2,"
      "scratch=1M");
  EXPECT_EQ(all.variant, Variant::aggregate);
  EXPECT_EQ(all.chunk_bytes, 64u << 10);
  EXPECT_EQ(all.algorithm, Algorithm::two_shot);
  EXPECT_EQ(all.chunks, 3u);
  EXPECT_EQ(all.turns, true);
  EXPECT_TRUE(all.slots_only);
  EXPECT_EQ(all.devices, 2u);
  EXPECT_EQ(all.scratch_from, 1u << 20);
  const auto none = *parse_plan_override("");
  EXPECT_FALSE(none.variant || none.algorithm || none.turns || none.slots_only);
}

TEST(PlanOverride, SaysWhatIsWrong) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of("fast"), HasSubstr("'fast': NAME=VALUE,... is needed"));
  EXPECT_THAT(error_of("speed=9"), HasSubstr("speed=9: the names are algorithm, variant"));
  EXPECT_THAT(error_of("turns=0,variant=al"),
              HasSubstr("variant=al: one of all, aggregate, naive"));
  EXPECT_THAT(error_of("algorithm="), HasSubstr("one_shot, two_shot, two_level, leaders"));
  EXPECT_THAT(error_of("chunks=0"), HasSubstr("chunks=0: a number from 1 to 1048576"));
  EXPECT_THAT(error_of("chunks=4x"), HasSubstr("chunks=4x"));
  EXPECT_THAT(error_of("chunk=63"), HasSubstr("64 bytes or more"));
  EXPECT_THAT(error_of("turns=yes"), HasSubstr("0 or 1"));
  EXPECT_THAT(error_of("scratch=0"), HasSubstr("scratch=0: a number of bytes is needed"));
  EXPECT_THAT(error_of("form=eager"), HasSubstr("auto or slots"));
  EXPECT_THAT(error_of("devices=65"), HasSubstr("1 to 64"));
}

TEST(PlanOverride, ChangesWhatTheCollectiveHas) {
  const Plan plan{.slot_bytes = 1 << 16};
  Problem problem{.collective = Collective::allreduce};
  const auto two_level = *parse_plan_override("algorithm=two_level,chunk=1K,chunks=2,turns=1");
  const Plan changed = two_level.applied_to(plan, problem, true);
  EXPECT_EQ(changed.algorithm, Algorithm::two_level);
  EXPECT_EQ(changed.slot_bytes, 1024u);
  EXPECT_EQ(changed.chunks, 2u);
  EXPECT_TRUE(changed.turns);
  EXPECT_EQ(two_level.applied_to(plan, problem, false).algorithm, Algorithm::one_shot);
  const Plan of_table{.chunks = 5};
  const auto scratch = *parse_plan_override("scratch=64K");
  EXPECT_EQ(scratch.applied_to(plan, problem, true).scratch_from, 64u << 10);
  EXPECT_EQ(two_level.applied_to(plan, problem, true).scratch_from, default_scratch_from);
  EXPECT_EQ(parse_plan_override("turns=1")->applied_to(of_table, problem, true).chunks, 5u);
  EXPECT_EQ(parse_plan_override("chunk=1K")->applied_to(of_table, problem, true).chunks, 0u);
  problem.collective = Collective::scan;
  EXPECT_EQ(two_level.applied_to(plan, problem, true).algorithm, Algorithm::one_shot);
  const auto naive = *parse_plan_override("variant=naive,algorithm=two_shot");
  problem.collective = Collective::reduce;
  EXPECT_EQ(naive.applied_to(plan, problem, true).algorithm, Algorithm::one_shot);
  EXPECT_EQ(naive.applied_to(plan, problem, true).variant, Variant::naive);
  Plan eager = plan;
  eager.eager = true;
  EXPECT_EQ(naive.applied_to(eager, problem, true), eager);
  EXPECT_FALSE(parse_plan_override("form=slots")->applied_to(eager, problem, true).eager);
}

}  // namespace
}  // namespace penstock::coll
