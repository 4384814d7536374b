// The litmus test of `penstock doctor coherence` on memories with known properties.
#include <gtest/gtest.h>

#include <memory>

#include "litmus/layout.hpp"
#include "litmus/rendezvous.hpp"
#include "pool/members.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {
namespace {

using litmus::Kind;
using litmus::Trial;
constexpr std::uint64_t rounds = 6;

using Check = std::function<void(World&, const litmus::Outcome&)>;

/// The next owner has the memory alone.
void expect_nothing_dirty(World& world, const arena::Object& lines) {
  Core& core = *world.running().core;
  for (std::uint64_t at = 0; at < lines.bytes; at += line_bytes) {
    world.require(!core.view().dirty(core.line_of(lines.data + at, line_bytes)),
                  fmt::format("byte {} of the object stays dirty", at));
  }
}

litmus::Outcome run_side(World& world, const SimulatedPool& simulated,
                         const std::function<void()>& alone) {
  const auto pool = simulated.attach(world);
  const auto arena = SimulatedPool::open_arena(world, *pool);
  arena::Object lines;
  const auto note = [&](const litmus::Outcome&) { lines = *arena->open(litmus::object_name); };
  auto outcome = litmus::run(*arena, {.rounds = rounds, .alone = alone, .started = note});
  world.require(outcome.has_value(), outcome ? "" : outcome.error().message);
  if (!world.faults().idle_write_back) expect_nothing_dirty(world, lines);
  return *outcome;
}

/// The name is free again.
void expect_nothing_left(World& world, const SimulatedPool& simulated) {
  const auto pool = simulated.attach(world);
  const auto arena = SimulatedPool::open_arena(world, *pool);
  // The first look at a process of another host only starts its lease.
  const auto certain = pool->members().make_certain();
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

/// Two processes, on two nodes or on one; both must arrive at `kind`. `in_turn`: the second comes
/// when the first has its seat, for memory on which the pool's own lock does not work.
Scenario scenario_of(const SimulatedPool& pool, const char* name, std::uint32_t nodes, Kind kind,
                     const Check& check = {}, bool in_turn = false) {
  Scenario scenario = pool.scenario(fmt::format("litmus, {}", name), nodes);
  scenario.body = [&pool, nodes, kind, check, in_turn](World& world) {
    auto seated = std::make_shared<bool>(false);
    for (std::uint32_t side = 0; side < 2; ++side) {
      world.spawn(side % nodes, [=, &world, &pool] {
        if (in_turn && side == 1) world.until([&] { return *seated; });
        const litmus::Outcome outcome = run_side(world, pool, [&] { *seated = true; });
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
  const Check check = [](World& world, const litmus::Outcome& outcome) {
    world.require(litmus::judge(outcome.report).intra_node_holds,
                  "peers of one node" + counts_text(outcome.report));
  };
  expect_held("litmus", "random schedules",
              explore(scenario_of(pool_, "coherent", 1, Kind::coherent, check), 60));
}

TEST_F(Litmus, NodesWithoutCoherenceNeedSoftware) {
  expect_held("litmus", "random schedules",
              explore(scenario_of(pool_, "not coherent", 2, Kind::software), 120));
}

/// The verdict is exact if no line is evicted by chance.
TEST_F(Litmus, LastingCopiesNeedWriteBackAndInvalidation) {
  const Check check = [](World& world, const litmus::Outcome& outcome) {
    const litmus::Verdict verdict = litmus::judge(outcome.report);
    world.require(verdict.needs_write_back && verdict.needs_invalidate && !verdict.intra_node_holds,
                  "one of both would do" + counts_text(outcome.report));
    for (const auto trial :
         {Trial::plain, Trial::written_back, Trial::dropped, Trial::intra_node}) {
      world.require(outcome.report.sum(trial).stale == 2 * rounds,
                    "seen by chance" + counts_text(outcome.report));
    }
  };
  expect_held(
      "litmus", "random schedules",
      explore(with_lasting_copies(scenario_of(pool_, "not coherent", 2, Kind::software, check)),
              60));
}

/// With overlapping stores of both sides: in some swarm configurations one process runs long before
/// the other.
TEST_F(Litmus, WordsThatDestroyTheirNeighboursAreFound) {
  Scenario scenario = scenario_of(pool_, "no partial stores", 2, Kind::no_partial_stores);
  scenario.faults.whole_line_words = true;
  scenario.swarm = false;
  expect_held("litmus", "random schedules", explore(scenario, 60));
}

TEST_F(Litmus, WriteBacksThatDoNothingAreUnusable) {
  Scenario scenario = scenario_of(pool_, "no write-back", 2, Kind::unusable);
  scenario.faults.idle_write_back = true;
  expect_held("litmus", "random schedules", explore(with_lasting_copies(scenario), 60));
}

/// Each property by itself: memory that violates only this one is detected by its trial.
class BrokenClaim : public Litmus {
 protected:
  void expect_unusable(const char* name, bool FaultModel::*broken, Trial trial) {
    const Check check = [trial](World& world, const litmus::Outcome& outcome) {
      const std::string why = litmus::judge(outcome.report).why;
      world.require(why.find(litmus::trial_name(trial)) != std::string::npos,
                    why + counts_text(outcome.report));
    };
    Scenario scenario = scenario_of(pool_, name, 2, Kind::unusable, check, true);
    scenario.faults.*broken = true;
    scenario.faults.deliver = 50;  // many stores are on their way
    scenario.swarm = false;
    expect_held("litmus", "random schedules", explore(scenario, 40));
  }
};

TEST_F(BrokenClaim, CatchesLoadsThatPassFullFence) {
  expect_unusable("loads pass full_fence", &FaultModel::loads_pass_full_fence, Trial::announced);
}

TEST_F(BrokenClaim, PayloadThatTheFlagOvertakes) {
  expect_unusable("bulk passes order", &FaultModel::bulk_passes_store_fence, Trial::bulk);
}

TEST_F(BrokenClaim, TagsBeforeTheirPayload) {
  expect_unusable("tags come first", &FaultModel::tags_arrive_first, Trial::tagged);
}

TEST_F(Litmus, WhoWaitsInVainLeavesNothing) {
  Scenario scenario = pool_.scenario("litmus, nobody comes", 2);
  scenario.body = [this](World& world) {
    world.spawn(0, [this, &world] {
      const auto pool = pool_.attach(world);
      const auto arena = SimulatedPool::open_arena(world, *pool);
      arena::Object lines;
      const auto note = [&] { lines = *arena->open(litmus::object_name); };
      const auto outcome =
          litmus::run(*arena, {.rounds = rounds, .timeout_ns = 10'000'000, .alone = note});
      world.require(!outcome && outcome.error().code == ErrorCode::deadline, "somebody came");
      expect_nothing_dirty(world, lines);
    });
  };
  scenario.after = [this](World& world) { expect_nothing_left(world, pool_); };
  expect_held("litmus", "random schedules", explore(with_lasting_copies(scenario), 20));
}

/// One side dies: the other gets an error that names it, or has finished; nothing is left.
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
          const bool named = outcome.error().code == ErrorCode::peer_dead &&
                             outcome.error().message.find("died") != std::string::npos;
          world.require(named || outcome.error().code == ErrorCode::deadline,
                        outcome.error().message);
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
