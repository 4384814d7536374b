// Small calls of GPUs whose data carries its flags, by the kernel's own code (direct_calls.hpp):
// units arrive late, in any order and in halves. Mixed with calls through slots and by hosts; a
// rank dies, stops or gives up anywhere; flags come again after 2^31 calls.
#include <gtest/gtest.h>

#include "sim/tests/direct_calls.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/hour.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/late_stores.hpp"

namespace penstock::sim::flagged_test {
namespace {

using namespace direct_calls;  // NOLINT(google-build-using-namespace): its tests

constexpr const char* subject = "flagged calls";

std::uint64_t place(SimulatedPool& pool, std::uint32_t ranks) {
  return place_communicator(pool, ranks, direct_shape(3, true));
}

Drawing flagged_by(std::uint32_t ranks) {
  return {.ranks = ranks, .launches = true, .flagged = true};
}

TEST(FlaggedCalls, GiveWhatIsPromised) {
  for (const std::uint32_t ranks : {2u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place(pool, ranks);
    const Scenario scenario = calls(pool, area, flagged_by(ranks));
    expect_held(subject, "random schedules", explore(scenario, 60));
    expect_held(subject, "random schedules", explore(with_lasting_copies(scenario), 40));
    expect_held(subject, "late stores", explore(with_late_stores(scenario), 40));
  }
}

/// Blocks are used again as soon as it is allowed.
TEST(FlaggedCalls, WaitForReadersOfTheirBlock) {
  SimulatedPool pool;
  const std::uint64_t area = place(pool, 3);
  Drawing drawing = flagged_by(3);
  drawing.calls = 12;
  drawing.one_of_by_hosts = 0;
  drawing.only_flagged = true;
  for (const bool broadcasts : {false, true}) {
    drawing.broadcasts = broadcasts;
    const Scenario scenario = calls(pool, area, drawing);
    expect_held(subject, "nothing else", explore(scenario, 60));
    expect_held(subject, "nothing else, late stores", explore(with_late_stores(scenario), 60));
  }
}

TEST(FlaggedCalls, NeedNoHostToGoOn) {
  SimulatedPool pool;
  const std::uint64_t area = place(pool, 3);
  Drawing drawing = flagged_by(3);
  drawing.watched = false;
  drawing.one_of_by_hosts = 0;
  expect_held(subject, "hosts that never look", explore(calls(pool, area, drawing), 40));
}

TEST(FlaggedCalls, TellOfNothingWrong) {
  for (const bool at_the_end : {false, true}) {
    SimulatedPool pool;
    const std::uint64_t area = place(pool, 3);
    Drawing drawing = flagged_by(3);
    drawing.calls = 5;
    drawing.one_of_by_hosts = 0;
    drawing.one_gives_up = true;
    drawing.at_the_end = at_the_end;
    expect_held(subject, "a rank gives up", explore(calls(pool, area, drawing), 60));
  }
}

/// A rank that aborts once its host has learnt of the end of its call has written its last word.
TEST(FlaggedCalls, AreDoneBehindTheirLastWord) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(1, true));
  Drawing drawing = flagged_by(3);
  drawing.calls = 1;
  drawing.one_of_by_hosts = 0;
  drawing.one_gives_up = drawing.at_the_end = true;
  expect_held(subject, "an abort behind a broadcast", explore(calls(pool, area, drawing), 120));
}

TEST(FlaggedCalls, SurviveAStopOfAnHour) {
  constexpr std::uint64_t operations = 2'000;
  SimulatedPool pool({.lease_ms = usual_lease_ms});
  const std::uint64_t area = place(pool, 3);
  for (const std::uint32_t victim : {0u, 2u}) {
    Drawing drawing = flagged_by(3);
    drawing.calls = 4;
    drawing.victim = victim;
    expect_held(subject, "an hour at any operation",
                explore(with_an_hour(calls(pool, area, drawing), operations), 30));
  }
}

TEST(FlaggedCalls, AreLetGoAtEachDeath) {
  SimulatedPool pool;
  const std::uint64_t area = place(pool, 3);
  for (const std::uint32_t victim : {0u, 2u}) {
    Drawing drawing = flagged_by(3);
    drawing.calls = 4;
    drawing.victim = victim;
    expect_held(subject, "a kill after each operation",
                crash_everywhere(calls(pool, area, drawing), 100));
  }
}

/// The calls skipped are those of which nothing is left in the blocks: units of the first calls
/// would pass for those of the last ones, unless they were cleared in between.
TEST(FlaggedCalls, TakeNoDataOf2To31CallsBefore) {
  constexpr std::uint64_t again = 1ull << 31, clearing = (1 << 30) - 2;
  constexpr std::size_t calls_each = 8;
  // In an alltoall of 4 ranks a thread writes units that another has cleared.
  for (const std::uint32_t ranks : {2u, 3u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place(pool, ranks);
    Drawing drawing = flagged_by(ranks);
    drawing.calls = 3 * calls_each;
    drawing.one_of_by_hosts = 0;
    drawing.only_flagged = true;
    // The calls number 1 to 8; from 4 before those that clear; from 2^31 + 1.
    const std::uint64_t second = clearing - 4 - calls_each;
    drawing.skips = {{calls_each, second}, {2 * calls_each, again - second - 2 * calls_each}};
    drawing.alltoalls = ranks == 4;
    const Scenario scenario = calls(pool, area, drawing);
    expect_held(subject, "flags that come again", explore(scenario, 40));
    expect_held(subject, "flags that come again, late stores",
                explore(with_late_stores(scenario), 40));
  }
}

}  // namespace
}  // namespace penstock::sim::flagged_test
