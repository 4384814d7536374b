// Turns measured times into a tuning table.
#include "bench/tuning_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace penstock::bench {
namespace {

constexpr coll::Shape shape{};

/// An allreduce of two ranks: the built-in plan takes 100, one other `others` (`least` at best),
/// the rest 200.
MeasuredCase measured(std::uint64_t bytes, double others, double least = 0) {
  for (TuningCase& c : tuning_cases({.quick = true}, 2, 1, shape)) {
    if (c.collective != coll::Collective::allreduce || c.bytes != bytes) continue;
    MeasuredCase one{std::move(c), {}, {}};
    one.ns.assign(one.what.plans.size(), 200);
    const std::size_t other = one.what.by_default == 0 ? 1 : 0;
    one.ns[other] = others;
    one.ns[one.what.by_default] = 100;
    one.least_ns = one.ns;
    if (least != 0) one.least_ns[other] = least;
    return one;
  }
  ADD_FAILURE() << "no case of " << bytes << " bytes";
  return {};
}

TEST(TuningCases, HaveTheBuiltInPlanAndNoneTwice) {
  for (const auto& [ranks, per_node] :
       {std::pair{2u, 1u}, {3u, 1u}, {8u, 1u}, {4u, 2u}, {5u, 3u}}) {
    const auto cases = tuning_cases({}, ranks, per_node, shape);
    std::size_t plans = 0;
    for (const TuningCase& c : cases) {
      EXPECT_LT(c.by_default, c.plans.size());
      EXPECT_EQ(c.plans.size(), c.candidates.size());
      for (std::size_t i = 0; i < c.plans.size(); ++i)
        for (std::size_t k = 0; k < i; ++k) EXPECT_FALSE(c.plans[i] == c.plans[k]);
      plans += c.plans.size();
    }
    EXPECT_LE(plans, TuningGrid{}.max_plans());
    EXPECT_GT(plans, cases.size() * 2);
  }
}

TEST(TuningCases, HaveNodeAlgorithmsForSeveralRanksPerNode) {
  const auto count = [](std::uint32_t per_node, auto holds) {
    std::size_t found = 0;
    for (const TuningCase& c : tuning_cases({.quick = true}, 4, per_node, shape))
      found += static_cast<std::size_t>(std::count_if(c.plans.begin(), c.plans.end(), holds));
    return found;
  };
  const auto hands_on = [](const coll::Plan& plan) {
    return plan.algorithm >= coll::Algorithm::two_level;
  };
  EXPECT_EQ(count(1, hands_on), 0u);
  EXPECT_GT(count(2, hands_on), 0u);
  EXPECT_GT(count(1, [](const coll::Plan& plan) { return plan.turns; }), 0u);
}

TEST(TuningChoices, KeepTheBuiltInPlanUnlessClearlySlower) {
  EXPECT_TRUE(choose({measured(8, 96)}, {2})[0].by_default);
  EXPECT_FALSE(choose({measured(8, 94)}, {2})[0].by_default);
  EXPECT_TRUE(choose({measured(8, 50, 99)}, {2})[0].by_default);  // it was faster only by luck
}

TEST(TuningChoices, HaveEntriesOnlyWherePlansDiffer) {
  const auto choices =
      choose({measured(8, 200), measured(1 << 10, 200), measured(4 << 10, 50)}, {3});
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_TRUE(choices[0].by_default);
  EXPECT_EQ(choices[0].last_bytes, 1024u);
  const auto tuning = tuning_of(choices);
  ASSERT_EQ(tuning.entries.size(), 1u);
  EXPECT_EQ(coll::print(tuning.entries[0]), "allreduce ranks=2-3 bytes=2049- one_shot");
  EXPECT_TRUE(coll::check(tuning));
  EXPECT_TRUE(tuning_of({}).entries.empty());
}

TEST(TuningChoices, TheGreatestGainsFillATable) {
  std::vector<TuningChoice> choices(coll::Tuning::max_entries + 5);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    choices[i].gain = 1 + static_cast<double>(i);
    choices[i].entry.min_bytes = i;
  }
  const auto entries = tuning_of(choices).entries;
  ASSERT_EQ(entries.size(), coll::Tuning::max_entries);
  EXPECT_EQ(entries.front().min_bytes, 5u);
  EXPECT_EQ(entries.back().min_bytes, choices.size() - 1);
}

TEST(TuningChoices, RanksForWhichFiguresStand) {
  EXPECT_EQ(last_ranks(2, 0), 2u);
  EXPECT_EQ(last_ranks(2, 4), 2u);
  EXPECT_EQ(last_ranks(4, 0), 7u);
  EXPECT_EQ(last_ranks(4, 6), 5u);
  EXPECT_EQ(last_per_node(4), 3u);
  EXPECT_EQ(last_per_node(0), coll::TuningEntry::any_ranks);
}

}  // namespace
}  // namespace penstock::bench
