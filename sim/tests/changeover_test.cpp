// Ranks that begin to use a communicator at the same one of their calls, on memory without
// coherence: each learns at another time that it can, none waits for one that is late, and some
// die.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "sim/tests/communicator_meeting.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"

namespace penstock::sim {
namespace {

using coll::Communicator;

constexpr const coll::Shape& shape = small_shape;
constexpr std::uint64_t crossings = 8;

struct Plan {
  std::uint64_t area = 0;
  std::vector<std::uint64_t> tokens;
  std::uint32_t opened = 0, offered = 0, left = 0;
  std::vector<std::uint64_t> passed;  ///< by rank: crossings
  int answer[crossings + 1] = {};     ///< of the first rank that has one: 1 no, 2 yes
};

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : world_(world), plan_(plan), self_(self) {
    pool_ = simulated.attach(world, {.rank = static_cast<std::int32_t>(self), .job = "sim"});
    plan.tokens[self] = pool_->token();
    ++plan.opened;
  }

  void go_through() {
    const auto ranks = static_cast<std::uint32_t>(plan_.tokens.size());
    wait_until(world_, "the ranks", [&] { return plan_.opened == ranks || somebody_died(); });
    if (plan_.opened != ranks) return;
    comm_ = *Communicator::open(
        *pool_, {.area = plan_.area, .tokens = plan_.tokens, .self = self_, .shape = shape});
    const std::uint64_t first = 1 + world_.random() % (crossings - 2);
    for (std::uint64_t crossing = 1; crossing <= crossings; ++crossing) {
      if (world_.random() % 3 == 0) world_.sleep(world_.random() % 20'000);
      if (crossing == crossings) meet(ranks);
      if (crossing == first) offer(first);
      const bool changes = crossing >= first && comm_->all_change("a crossing", crossing);
      note(crossing, changes);
      if (changes) break;
    }
    ++plan_.left;
    // Nobody is gone, but for the dead, while another may look at it.
    wait_until(world_, "the others", [&] { return plan_.left == ranks || somebody_died(); });
  }

 private:
  bool somebody_died() const { return world_.victim() != nullptr && world_.victim()->dead; }
  void offer(std::uint64_t first) {
    comm_->offer_change(first);
    pool_->memory().full_fence();  // the test's own words go faster than the pool's
    ++plan_.offered;
  }
  /// Before the last crossing all have offered, so that there all change.
  void meet(std::uint32_t ranks) {
    wait_until(world_, "the offers", [&] { return plan_.offered == ranks || somebody_died(); });
  }
  void note(std::uint64_t crossing, bool changes) {
    int& answer = plan_.answer[crossing];
    const int own = changes ? 2 : 1;
    // Who is dead goes no way: only those who live must go the same.
    world_.require(answer == 0 || answer == own || self_is_dead(),
                   fmt::format("rank {} goes another way at crossing {}", self_, crossing));
    answer = own;
    world_.require(changes || crossing != crossings || somebody_died(),
                   "all have offered, and not all change");
  }
  bool self_is_dead() const { return somebody_died() && world_.victim()->number == self_; }

  World& world_;
  Plan& plan_;
  std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<Communicator> comm_;
};

Scenario changeover(const SimulatedPool& pool, std::uint64_t area, std::uint32_t ranks,
                    std::uint32_t victim = ~0u) {
  Scenario scenario = pool.scenario(fmt::format("changeover of {} ranks", ranks), 3);
  scenario.body = [&pool, area, ranks, victim](World& world) {
    auto plan = std::make_shared<Plan>();
    plan->area = area;
    plan->tokens.resize(ranks);
    for (std::uint32_t self = 0; self < ranks; ++self) {
      Process& process = world.spawn(self % 3, [&world, &pool, plan, self] {
        Rank rank(world, pool, *plan, self);
        rank.go_through();
      });
      if (self == victim) world.mark_victim(process);
    }
  };
  return scenario;
}

TEST(Changeover, AllRanksChangeAtTheSameCrossing) {
  for (const std::uint32_t ranks : {2u, 3u, 4u}) {
    SimulatedPool pool;
    const std::uint64_t area = place_communicator(pool, ranks);
    const Scenario scenario = changeover(pool, area, ranks);
    // What a look in two parts at once misses takes four ranks, and one of a thousand schedules.
    expect_held("changeover", "random schedules", explore(scenario, ranks == 4 ? 2000 : 200));
    expect_held("changeover", "random schedules", explore(with_lasting_copies(scenario), 150));
  }
}

TEST(Changeover, AmongTheDeadToo) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 3);
  expect_held("changeover", "crash points", crash_everywhere(changeover(pool, area, 3, 1), 300));
}

/// Whoever has come this far waits for nobody: not for one that can, but is late.
TEST(Changeover, NobodyWaitsForOneThatIsLate) {
  SimulatedPool pool;
  const std::uint64_t area = place_communicator(pool, 2);
  Scenario scenario = pool.scenario("changeover with a late rank", 2);
  scenario.body = [&pool, area](World& world) {
    auto plan = std::make_shared<Plan>();
    plan->area = area;
    plan->tokens.resize(2);
    for (std::uint32_t self = 0; self < 2; ++self) {
      world.spawn(self, [&world, &pool, plan, self] {
        const auto attached = pool.attach(world, {.rank = static_cast<std::int32_t>(self)});
        plan->tokens[self] = attached->token();
        ++plan->opened;
        wait_until(world, "the other", [&] { return plan->opened == 2; });
        const auto comm = *Communicator::open(
            *attached, {.area = plan->area, .tokens = plan->tokens, .self = self, .shape = shape});
        comm->offer_change(self + 1);
        attached->memory().full_fence();
        ++plan->offered;
        wait_until(world, "the offers", [&] { return plan->offered == 2; });
        // Rank 1 comes to its first crossing when rank 0 is through two.
        if (self == 1) wait_until(world, "rank 0", [&] { return plan->left == 2; });
        if (self == 0) world.require(!comm->all_change("first", 1), "changed without rank 1");
        if (self == 0) ++plan->left;
        world.require(comm->all_change("second", 2), "did not change with rank 1");
        ++plan->left;
        wait_until(world, "the other", [&] { return plan->left == 3; });
      });
    }
  };
  expect_held("changeover", "random schedules", explore(scenario, 50));
}

}  // namespace
}  // namespace penstock::sim
