// A process that polls only its own bell answers its peers' questions about its windows, on memory
// without coherence.
#include "window/process_bell.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/window_pair.hpp"

namespace penstock::sim::process_bell_test {
namespace {

using window::Extent;
using window::ProcessBell;

constexpr std::uint64_t segment_bytes = 64 << 10;  ///< peers must ask for its ranges
constexpr std::uint32_t origin = 0, target = 1;
constexpr std::uint32_t questions = 6;

class Rank : public PairRank {
 public:
  Rank(World& world, const SimulatedPool& simulated, PairPlan& plan, std::uint32_t self)
      : PairRank(world, simulated, plan, self, window::Options().review_bytes,
                 [this](std::uint32_t) { ProcessBell::ring(*pool_, bell_at()); }) {}

  /// Asks for places that are too far apart for one range.
  void ask() {
    for (std::uint32_t i = 0; i < questions; ++i) {
      const std::uint64_t value = 100 + i;
      const Extent word{i % 2 * 40'000 + i * 640, sizeof value};
      must(window_->lock(target, sync::Hold::shared));
      must(window_->put(target, {&word, 1}, &value));
      must(window_->unlock(target));
    }
    done(1);
  }
  void answer() {
    ProcessBell bell(*pool_, bell_at());
    std::uint32_t rings = 0;
    while (plan_.step < 1) {
      if (bell.rung()) {
        window_->serve();
        ++rings;
      }
      world_.yield();
    }
    world_.require(rings > 0, "nothing rang");
  }

 private:
  /// The pool's last line, which no object uses.
  std::uint64_t bell_at() const { return pool_->bytes() - coherence::line_bytes; }
};

TEST(ProcessBell, IsAllThatNeedsToBeLookedAt) {
  SimulatedPool pool;
  pool.format_arena();
  const PairPlan empty{place_window(pool, std::array{std::uint64_t{0}, segment_bytes})};
  Scenario scenario = pool.scenario("a process's bell", 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&](World& world) {
    auto plan = std::make_shared<PairPlan>(empty);
    for (std::uint32_t self = 0; self < 2; ++self) {
      world.spawn(self, [&world, &pool, plan, self] {
        Rank rank(world, pool, *plan, self);
        self == origin ? rank.ask() : rank.answer();
        rank.leave();
      });
    }
  };
  expect_held("window", "random schedules", explore(scenario, 100));
  expect_held("window", "random schedules", explore(with_lasting_copies(scenario), 100));
}

}  // namespace
}  // namespace penstock::sim::process_bell_test
