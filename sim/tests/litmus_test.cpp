// The litmus test of `penstock doctor coherence` on memories of which it is known what they are.
#include <gtest/gtest.h>

#include <memory>

#include "litmus/meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

using litmus::Kind;
constexpr std::uint64_t rounds = 6;

using Check = std::function<void(World&, const litmus::Outcome&)>;

litmus::Outcome run_side(World& world, const SimulatedPool& simulated) {
  const auto pool = simulated.attach(world);
  const auto arena = SimulatedPool::open_arena(world, *pool);
  auto outcome = litmus::run(*arena, {.rounds = rounds});
  world.require(outcome.has_value(), outcome ? "" : outcome.error().message);
  return *outcome;
}

/// The name is free again.
void expect_nothing_left(World& world, const SimulatedPool& simulated) {
  const auto pool = simulated.attach(world);
  const auto arena = SimulatedPool::open_arena(world, *pool);
  // The first look at a process of another host only starts its lease.
  const auto certain = pool->make_certain();
  world.require(certain.has_value(), certain ? "" : certain.error().message);
  const auto freed = arena->collect();
  world.require(freed.has_value(), freed ? "" : freed.error().message);
  world.require(arena->list().empty(), "something is left in the pool");
}

std::string counts_text(const litmus::Report& report) {
  std::string text;
  for (std::uint32_t i = 0; i < litmus::trial_count; ++i) {
    const auto trial = static_cast<litmus::Trial>(i);
    const litmus::Counts sum = report.sum(trial);
    text += fmt::format("; {}: {} right, {} stale, {} torn, {} wrong", litmus::trial_name(trial),
                        sum.right, sum.stale, sum.torn, sum.wrong);
  }
  return text;
}

/// Two processes, on two nodes or on one; both must come to `kind`.
Scenario scenario_of(const SimulatedPool& pool, const char* name, std::uint32_t nodes, Kind kind,
                     const Check& check = {}) {
  Scenario scenario = pool.scenario(fmt::format("litmus, {}", name), nodes);
  scenario.body = [&pool, nodes, kind, check](World& world) {
    for (std::uint32_t side = 0; side < 2; ++side) {
      world.spawn(side % nodes, [&world, &pool, nodes, kind, check] {
        const litmus::Outcome outcome = run_side(world, pool);
        const litmus::Verdict verdict = litmus::judge(outcome.report);
        world.require(verdict.kind == kind,
                      fmt::format("verdict {}{}", static_cast<int>(verdict.kind),
                                  counts_text(outcome.report)));
        world.require(outcome.same_node == (nodes == 1), "the same node?");
        if (check) check(world, outcome);
      });
    }
  };
  scenario.after = [&pool](World& world) { expect_nothing_left(world, pool); };
  return scenario;
}

class Litmus : public ::testing::Test {
 protected:
  Litmus() { pool_.format_arena(); }
  SimulatedPool pool_;
};

TEST_F(Litmus, ProcessesOfOneNodeAreCoherent) {
  expect_held("litmus", "random schedules",
              explore(scenario_of(pool_, "coherent", 1, Kind::coherent), 60));
}

TEST_F(Litmus, NodesWithoutCoherenceNeedSoftware) {
  expect_held("litmus", "random schedules",
              explore(scenario_of(pool_, "not coherent", 2, Kind::software), 120));
}

/// Where nothing is evicted by chance it is exact.
TEST_F(Litmus, LastingCopiesNeedWriteBackAndInvalidation) {
  const Check check = [](World& world, const litmus::Outcome& outcome) {
    const litmus::Verdict verdict = litmus::judge(outcome.report);
    world.require(verdict.needs_write_back && verdict.needs_invalidate,
                  "one of both would do" + counts_text(outcome.report));
    for (const auto trial :
         {litmus::Trial::plain, litmus::Trial::written_back, litmus::Trial::dropped}) {
      world.require(outcome.report.sum(trial).stale == 2 * rounds,
                    "seen by chance" + counts_text(outcome.report));
    }
  };
  expect_held(
      "litmus", "random schedules",
      explore(with_lasting_copies(scenario_of(pool_, "not coherent", 2, Kind::software, check)),
              60));
}

/// Where the two sides' stores overlap: in some moods one process runs long before the other does.
TEST_F(Litmus, WordsThatDestroyTheirNeighboursAreFound) {
  Scenario scenario = scenario_of(pool_, "no partial stores", 2, Kind::no_partial_stores);
  scenario.knobs.whole_line_words = true;
  scenario.moods = false;
  expect_held("litmus", "random schedules", explore(scenario, 60));
}

TEST_F(Litmus, WriteBacksThatDoNothingAreUnusable) {
  Scenario scenario = scenario_of(pool_, "no write-back", 2, Kind::unusable);
  scenario.knobs.idle_write_back = true;
  expect_held("litmus", "random schedules", explore(with_lasting_copies(scenario), 60));
}

/// A side that dies: the other is told who, or was done; nothing is left.
TEST_F(Litmus, TheDeathOfASideIsTold) {
  for (const bool first : {true, false}) {
    Scenario scenario =
        pool_.scenario(fmt::format("litmus, {} side dies", first ? "first" : "second"), 3);
    scenario.body = [this, first](World& world) {
      for (std::uint32_t side = 0; side < 2; ++side) {
        const bool dies = (side == 0) == first;
        Process& process = world.spawn(side, [this, &world] {
          const auto pool = pool_.attach(world);
          const auto arena = SimulatedPool::open_arena(world, *pool);
          const auto outcome =
              litmus::run(*arena, {.rounds = 2, .timeout_ns = 40 * pool_.lease_ns(world)});
          if (outcome) return;
          world.require(world.victim()->dead, outcome.error().message);
          const bool named = outcome.error().code == Code::peer_dead &&
                             outcome.error().message.find("died") != std::string::npos;
          world.require(named || outcome.error().code == Code::deadline, outcome.error().message);
        });
        if (dies) world.mark_victim(process);
      }
    };
    scenario.after = [this](World& world) { expect_nothing_left(world, pool_); };
    expect_held("litmus", "crash points", crash_everywhere(scenario, 80));
  }
}

}  // namespace
}  // namespace penstock::sim
