// The barrier of many ranks, by a tree (src/schedule/tree_barrier.cpp), on memory without
// coherence.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"

namespace penstock::sim::tree_barrier_test {
namespace {

constexpr std::uint32_t rounds = 6;

struct Plan : Meeting {
  using Meeting::Meeting;
  std::uint32_t nodes = 0;
  std::uint64_t words = 0;  ///< a line for each rank
};

std::uint64_t place_words(SimulatedPool& pool, std::uint32_t ranks) {
  std::uint64_t at = 0;
  pool.once([&](World& world) {
    const auto attached = pool.attach(world);
    const auto object = SimulatedPool::open_arena(world, *attached)->create("words", 64ull * ranks);
    world.require(object.has_value(), object ? "" : object.error().message);
    at = object->offset;
  });
  return at;
}

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : world_(world), plan_(plan), self_(self), pool_(plan.attach(world, simulated, self)) {}

  void call_all() {
    wait_until(world_, "the ranks", [&] { return plan_.all_came() || somebody_died(); });
    if (!plan_.all_came()) return;
    const auto comm = plan_.open(world_, *pool_, self_);
    const coll::Problem problem{
        .collective = coll::Collective::barrier, .ranks = comm->ranks(), .rank = self_};
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      // No fence: what was published before the barrier must be found after it.
      pool_->memory().publish_word(word(self_), round);
      const auto met = comm->run({.name = "barrier",
                                  .problem = &problem,
                                  .plan = {.algorithm = coll::Algorithm::leaders}});
      if (!met) return expect_death(met.error());
      for (std::uint32_t rank = 0; rank < comm->ranks(); ++rank)
        world_.require(pool_->memory().observe_word(word(rank)) >= round,
                       fmt::format("rank {} passed barrier {} before rank {} came, or found an old "
                                   "word of it",
                                   self_, round, rank));
    }
    comm->leave();
    if (const auto all = comm->await_all_left("the end"); !all) expect_death(all.error());
  }

 private:
  std::byte* word(std::uint32_t rank) const { return pool_->base() + plan_.words + 64ull * rank; }
  bool somebody_died() const { return world_.victim() != nullptr && world_.victim()->dead; }
  void expect_death(const Error& error) const {
    world_.require(error.code == ErrorCode::peer_dead && somebody_died(), error.message);
  }

  World& world_;
  Plan& plan_;
  std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
};

struct Size {
  std::uint32_t ranks, nodes, victim = ~0u;
};

Scenario barriers(const SimulatedPool& pool, std::uint64_t area, std::uint64_t words, Size size) {
  Scenario scenario =
      pool.scenario(fmt::format("barriers by a tree, {} ranks on {} nodes{}", size.ranks,
                                size.nodes, size.victim < size.ranks ? ", one dies" : ""),
                    size.nodes);
  scenario.max_steps = 20'000'000;
  scenario.body = [&pool, area, words, size](World& world) {
    auto plan = std::make_shared<Plan>(area, size.ranks);
    plan->nodes = size.nodes;
    plan->words = words;
    for (std::uint32_t rank = 0; rank < size.ranks; ++rank)
      plan->node_of.push_back(rank % size.nodes);
    spawn_ranks<Rank>(world, pool, plan, size.nodes, size.victim);
  };
  return scenario;
}

/// Leaders in one step and in two; ranks below ranks in a node.
TEST(TreeBarrier, SeparatesRanksAndPublishesData) {
  for (const Size size : {Size{5, 2}, {7, 3}, {20, 1}, {17, 17}}) {
    SimulatedPool pool({.max_processes = 24, .max_nodes = 20});
    const std::uint64_t area = place_communicator(pool, size.ranks);
    const Scenario scenario = barriers(pool, area, place_words(pool, size.ranks), size);
    const int runs = size.ranks > 10 ? 5 : 40;
    expect_held("collectives", "random schedules", explore(scenario, runs));
    expect_held("collectives", "random schedules", explore(with_lasting_copies(scenario), runs));
  }
}

/// A leader dies, or a rank below one: all others of a node learn of it through their leader.
TEST(TreeBarrier, ADeathIsToldToAll) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 6);
  const std::uint64_t words = place_words(pool, 6);
  for (const std::uint32_t victim : {1u, 4u}) {
    const Scenario scenario = barriers(pool, area, words, {6, 3, victim});
    expect_held("collectives", "crash points", crash_everywhere(scenario, 60));
  }
}

}  // namespace
}  // namespace penstock::sim::tree_barrier_test
