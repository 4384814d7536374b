#include "litmus/verdict.hpp"

#include <gtest/gtest.h>

namespace penstock::litmus {
namespace {

constexpr std::uint64_t rounds = 100;

Counts& of(Report& report, std::uint32_t reader, Trial trial) {
  return report.counts[reader][static_cast<std::uint32_t>(trial)];
}

Report all_right() {
  Report report;
  report.rounds = rounds;
  for (auto& side : report.counts) {
    for (Counts& counts : side) counts.right = rounds;
  }
  return report;
}

/// A report in which one reader alone missed something, once.
Report missed(std::initializer_list<Trial> trials, std::uint32_t reader = 0) {
  Report report = all_right();
  for (const Trial trial : trials) of(report, reader, trial) = {.right = rounds - 1, .stale = 1};
  return report;
}

TEST(Verdict, CoherentWhenEveryRoundOfBothDirectionsIs) {
  EXPECT_EQ(judge(all_right()).kind, Kind::coherent);
  for (const std::uint32_t reader : {0, 1}) {
    EXPECT_EQ(judge(missed({Trial::plain}, reader)).kind, Kind::software);
  }
}

TEST(Verdict, TellsWhatWasMissing) {
  const Verdict both = judge(missed({Trial::plain, Trial::written_back, Trial::dropped}));
  EXPECT_TRUE(both.needs_write_back && both.needs_invalidate);
  const Verdict reader = judge(missed({Trial::plain, Trial::written_back}));
  EXPECT_TRUE(!reader.needs_write_back && reader.needs_invalidate);
  const Verdict writer = judge(missed({Trial::plain, Trial::dropped}));
  EXPECT_TRUE(writer.needs_write_back && !writer.needs_invalidate);
}

TEST(Verdict, WordsThatAreLostMatterWithoutCoherence) {
  EXPECT_EQ(judge(missed({Trial::plain, Trial::words})).kind, Kind::no_partial_stores);
  EXPECT_EQ(judge(missed({Trial::words})).kind, Kind::coherent);
}

TEST(Verdict, UnusableWhereTheWholeDisciplineDoesNotHelp) {
  for (const Trial trial :
       {Trial::both, Trial::published, Trial::bulk, Trial::tagged, Trial::announced}) {
    const Verdict verdict = judge(missed({trial}));
    EXPECT_EQ(verdict.kind, Kind::unusable);
    EXPECT_NE(verdict.why.find("1 of 200 rounds"), std::string::npos) << verdict.why;
  }
  Report report = all_right();
  of(report, 1, Trial::stream).wrong = 3;
  EXPECT_EQ(judge(report).kind, Kind::unusable);
}

TEST(Verdict, WhatIsNearSaysNothingOfOtherNodes) {
  EXPECT_TRUE(judge(all_right()).intra_node_holds);
  const Verdict verdict = judge(missed({Trial::intra_node}));
  EXPECT_FALSE(verdict.intra_node_holds);
  EXPECT_EQ(verdict.kind, Kind::coherent);
}

TEST(Verdict, TornLinesAreNoError) {
  Report report = all_right();
  of(report, 0, Trial::stream).torn = 3;
  EXPECT_EQ(judge(report).kind, Kind::coherent);
}

TEST(Verdict, NothingCountedIsNotRight) {
  EXPECT_EQ(judge(Report{}).kind, Kind::unusable);
}

}  // namespace
}  // namespace penstock::litmus
