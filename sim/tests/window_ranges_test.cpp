// Ranges of a window that peers no longer access are given back, on memory without coherence.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/window_pair.hpp"
#include "window/window.hpp"

namespace penstock::sim::window_ranges_test {
namespace {

using window::Extent;

constexpr std::uint64_t segment_bytes = 64 << 10;  ///< peers must ask for its ranges
constexpr std::uint64_t near = 0, far = 40'000;    ///< words of it, too far apart for one range
constexpr std::uint32_t origin = 0, target = 1;
constexpr std::uint64_t given_back_at_each_epoch = 1;

class Rank : public PairRank {
 public:
  Rank(World& world, const SimulatedPool& simulated, PairPlan& plan, std::uint32_t self)
      : PairRank(world, simulated, plan, self, given_back_at_each_epoch) {}

  void fence(std::uint32_t asserts = 0) { must(window_->fence(asserts)); }
  void put(std::uint64_t at, std::uint64_t value) {
    const Extent word{at, sizeof value};
    must(window_->put(target, {&word, 1}, &value));
  }
  void put_under_lock(std::uint64_t at, std::uint64_t value) {
    must(window_->lock(target, sync::Hold::shared));
    put(at, value);
    must(window_->unlock(target));
  }
  /// Past the window: the target sees it only by traversing the line itself.
  void publish(std::uint64_t at, std::uint64_t value) {
    pool_->memory().publish_word(window_->segment(target) + at, value);
    pool_->memory().full_fence();
  }
  void find(std::uint64_t at, std::uint64_t expected, const char* what) {
    const std::uint64_t value = pool_->memory().load_word(window_->segment(target) + at);
    world_.require(value == expected, fmt::format("{}: finds {}, not {}", what, value, expected));
  }
  void serve() { window_->serve(); }
};

using Body = void (*)(Rank&);

Scenario two_ranks(const SimulatedPool& pool, const PairPlan& empty, const char* name,
                   Body at_origin, Body at_target) {
  Scenario scenario = pool.scenario(name, 2);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, &empty, at_origin, at_target](World& world) {
    auto plan = std::make_shared<PairPlan>(empty);
    for (std::uint32_t self = 0; self < 2; ++self) {
      world.spawn(self, [&world, &pool, plan, self, at_origin, at_target] {
        Rank rank(world, pool, *plan, self);
        (self == origin ? at_origin : at_target)(rank);
        rank.leave();
      });
    }
  };
  return scenario;
}

void expect_two_ranks(const char* name, Body at_origin, Body at_target) {
  SimulatedPool pool;
  pool.format_arena();
  const PairPlan plan{place_window(pool, std::array{std::uint64_t{0}, segment_bytes})};
  const Scenario scenario = two_ranks(pool, plan, name, at_origin, at_target);
  expect_held("window", "random schedules", explore(with_lasting_copies(scenario), 20));
}

/// A program that alternates between two ranges keeps both: an epoch in which it accesses one of
/// them no longer gives the other back.
TEST(WindowRanges, KeepsReturnedRangeOnReuse) {
  constexpr int turns = 16;
  const auto at_origin = [](Rank& rank) {
    rank.fence();
    for (std::uint64_t turn = 1; turn <= turns; ++turn) {
      rank.put(near, turn);
      rank.fence();
      rank.put(far, turn);
      rank.fence();
    }
    rank.put(near, 0);
    rank.fence();
    rank.done(1);
    rank.await(2);
    rank.publish(far, 0);
    rank.fence();
  };
  const auto at_target = [](Rank& rank) {
    rank.fence();
    for (int turn = 0; turn < 2 * turns; ++turn) rank.fence();
    rank.fence();
    rank.serve_until(1);
    rank.serve();
    rank.sync();
    rank.find(far, turns, "put");
    rank.done(2);
    rank.fence();
    rank.find(far, 0, "gone through");
  };
  expect_two_ranks("turns between two ranges", at_origin, at_target);
}

/// The target keeps its copy of the far word through a fence: it no longer traverses that word.
TEST(WindowRanges, SkipsRangesNotAccessedLately) {
  const auto at_origin = [](Rank& rank) {
    rank.fence();
    rank.put(near, 1);
    rank.put(far, 1);
    rank.fence();  // both were accessed
    rank.put(near, 2);
    rank.fence();  // the far one is given back
    rank.done(1);
    rank.await(2);
    rank.publish(far, 3);
    rank.publish(near, 3);
    rank.fence();
    rank.await(3);
    rank.put(far, 4);  // asks again
    rank.fence();
  };
  const auto at_target = [](Rank& rank) {
    rank.fence();
    rank.fence();
    rank.find(far, 1, "put");
    rank.fence();
    rank.serve_until(1);
    rank.serve();
    rank.sync();
    rank.find(far, 1, "put");
    rank.find(near, 2, "put");
    rank.done(2);
    rank.fence();
    rank.find(far, 1, "not gone through");
    rank.find(near, 3, "gone through");
    rank.done(3);
    rank.fence();
    rank.find(far, 4, "put after it was asked for again");
  };
  expect_two_ranks("window, ranges given back", at_origin, at_target);
}

/// Fences with no_precede drop nothing.
TEST(WindowRanges, FindsPutsMadeBeforeRangeReturn) {
  constexpr std::uint32_t empty = window::no_precede | window::no_succeed;
  const auto at_origin = [](Rank& rank) {
    rank.fence(empty);
    rank.await(1);
    rank.put_under_lock(far, 1);
    rank.fence(empty);
    rank.fence(empty);  // given back
    rank.done(2);
    rank.await(3);
  };
  const auto at_target = [](Rank& rank) {
    rank.fence(empty);
    rank.find(far, 0, "at first");
    rank.done(1);
    rank.fence(empty);
    rank.fence(empty);
    rank.serve_until(2);
    rank.serve();
    rank.sync();
    rank.find(far, 1, "put under a lock");
    rank.done(3);
  };
  expect_two_ranks("window, ranges given back after a put", at_origin, at_target);
}

}  // namespace
}  // namespace penstock::sim::window_ranges_test
