// Collectives that GPUs do by themselves, on memory that neither caches nor orders their stores:
// each rank has two streams, out of step, and a host that only watches. Hosts make calls in
// between, or do not watch at all, and ranks die at any operation. The same by launches: the code
// of the kernel itself, run by threads of a block that are out of step.
#include <gtest/gtest.h>

#include "sim/tests/direct_calls.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/hour.hpp"
#include "sim/tests/lasting_copies.hpp"

namespace penstock::sim::direct_test {
namespace {

using namespace direct_calls;  // NOLINT(google-build-using-namespace): its tests

TEST(GpusAlone, GiveWhatIsPromised) {
  for (const std::uint32_t ranks : {2u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks, direct_shape(3));
    const Scenario scenario = calls(pool, area, {.ranks = ranks});
    expect_held("GPUs alone", "random schedules", explore(scenario, 60));
    expect_held("GPUs alone", "random schedules", explore(with_lasting_copies(scenario), 40));
  }
}

TEST(GpusAlone, NeedNoHostToGoOn) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
  expect_held("GPUs alone", "hosts that never look",
              explore(calls(pool, area, {.ranks = 3, .watched = false, .one_of_by_hosts = 0}), 40));
}

/// Streams that were released write words for chunks that do not exist: a rank that has taken these
/// finds the failure when it asks.
TEST(GpusAlone, TellOfAFailureBeforeWrongData) {
  for (const std::uint32_t ranks : {2u, 3u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks, direct_shape(3));
    const Scenario scenario =
        calls(pool, area, {.ranks = ranks, .calls = 6, .one_of_by_hosts = 0, .one_gives_up = true});
    expect_held("GPUs alone", "a rank gives up", explore(scenario, 60));
    expect_held("GPUs alone", "a rank gives up", explore(with_lasting_copies(scenario), 60));
  }
}

/// A rank that aborts after all it began is done has announced nothing wrong: the others, which are
/// still at their last calls, do not fail.
TEST(GpusAlone, SucceedWhenFinishedRankAborts) {
  for (const std::uint32_t ranks : {2u, 3u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks, direct_shape(3));
    const Scenario scenario =
        calls(pool, area, {.ranks = ranks, .calls = 4, .one_gives_up = true, .at_the_end = true});
    expect_held("GPUs alone", "a rank gives up at the end", explore(scenario, 40));
    expect_held("GPUs alone", "a rank gives up at the end",
                explore(with_lasting_copies(scenario), 30));
  }
}

TEST(GpusAlone, AreLetGoAtEachDeath) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
  for (const std::uint32_t victim : {0u, 2u})
    expect_held(
        "GPUs alone", "a kill after each operation",
        crash_everywhere(calls(pool, area, {.ranks = 3, .calls = 5, .victim = victim}), 120));
}

/// By one launch for each call, with the kernel's own code; mixed with ranks that use streams.
TEST(GpusByLaunches, GiveWhatIsPromised) {
  for (const std::uint32_t ranks : {2u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks, direct_shape(3));
    const Scenario scenario = calls(pool, area, {.ranks = ranks, .launches = true});
    expect_held("GPUs by launches", "random schedules", explore(scenario, 60));
    expect_held("GPUs by launches", "random schedules", explore(with_lasting_copies(scenario), 40));
  }
}

TEST(GpusByLaunches, NeedNoHostToGoOn) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
  expect_held("GPUs by launches", "hosts that never look",
              explore(calls(pool, area,
                            {.ranks = 3, .watched = false, .one_of_by_hosts = 0, .launches = true}),
                      40));
}

TEST(GpusByLaunches, TellOfNothingWrong) {
  for (const bool at_the_end : {false, true}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
    const Scenario scenario = calls(pool, area,
                                    {.ranks = 3,
                                     .calls = 5,
                                     .one_of_by_hosts = 0,
                                     .one_gives_up = true,
                                     .at_the_end = at_the_end,
                                     .launches = true});
    expect_held("GPUs by launches", "a rank gives up", explore(scenario, 60));
  }
}

TEST(GpusByLaunches, SurviveAStopOfAnHour) {
  constexpr std::uint64_t operations = 2'000;
  SimulatedPool pool({.lease_ms = usual_lease_ms});
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
  for (const std::uint32_t victim : {0u, 2u})
    expect_held(
        "GPUs by launches", "an hour at any operation",
        explore(with_an_hour(
                    calls(pool, area, {.ranks = 3, .calls = 4, .victim = victim, .launches = true}),
                    operations),
                30));
}

/// The host learns that a call is done only after all words that the block has written: a rank that
/// waits for one of these words does not see an abort instead.
TEST(GpusByLaunches, AreDoneBehindTheirLastWord) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(1));
  expect_held("GPUs by launches", "an abort behind a broadcast",
              explore(calls(pool, area,
                            {.ranks = 3,
                             .calls = 1,
                             .one_of_by_hosts = 0,
                             .one_gives_up = true,
                             .at_the_end = true,
                             .launches = true}),
                      120));
}

/// A call that moves nothing writes one word twice: for earlier calls being finished, and for its
/// own end.
TEST(GpusByLaunches, TellOfEmptyCallsInOrder) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 2, direct_shape(3));
  expect_held("GPUs by launches", "empty calls between those of hosts",
              explore(calls(pool, area, {.calls = 9, .launches = true, .empty = true}), 60));
}

TEST(GpusByLaunches, AreLetGoAtEachDeath) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3, direct_shape(3));
  for (const std::uint32_t victim : {0u, 2u})
    expect_held(
        "GPUs by launches", "a kill after each operation",
        crash_everywhere(
            calls(pool, area, {.ranks = 3, .calls = 4, .victim = victim, .launches = true}), 100));
}

}  // namespace
}  // namespace penstock::sim::direct_test
