// Ranks that access each other's memory by locks and fences, and order their own loads and stores
// by barriers outside the window: what plugins/mpi does for MPI's collective calls.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/window_space.hpp"
#include "window/window.hpp"

namespace penstock::sim::collective_test {
namespace {

using window::Extent;
using window::Window;

constexpr std::uint32_t ranks = 2;
/// One segment whose ranges must be asked for, and one that is written back whole.
constexpr std::uint64_t segment_bytes[ranks] = {9000, 300};
constexpr std::uint32_t rounds = 6;
/// The other rank puts to the first place, and gets the owner's stores at the second, in another
/// line.
constexpr std::uint64_t put_at = 8, stored_at = 200;

struct Plan : WindowSpace {
  std::uint32_t opened = 0, met = 0, got = 0;
};

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : world_(world), plan_(plan), self_(self), other_(1 - self) {
    pool_ = plan.attach(world, simulated, self);
    ++plan.opened;
    wait_until(world, "the other", [&] { return plan.opened == ranks; });
    auto opened = Window::open(*pool_, plan.options(self));
    world.require(opened.has_value(), opened ? "" : opened.error().message);
    window_ = std::move(*opened);
    meet();
  }

  void go_through(std::uint32_t round, bool fenced) {
    if (fenced) {  // the fence makes the ranges known, but not that locks reach them
      must(window_->fence());
      put(put_at, 1000 + round);
      must(window_->fence(window::no_succeed));
      require(load(put_at), 1000 + round, "finds, fenced");
    }
    store(100 * (self_ + 1) + round);
    window_->publish_own();
    // No later operation of this rank may be what publishes its stores.
    gather(round < 2);  // questions for ranges come in the first rounds
    if (round >= 2) get_in_turn(round);
    window_->observe_own();
    must(window_->lock(other_, sync::Hold::shared));
    put(put_at, 10 * (self_ + 1) + round);
    must(window_->unlock(other_));
    meet();
    require(load(put_at), 10 * (other_ + 1) + round, "finds");
    get_what_was_stored(round);
    meet();
  }
  void leave() { must(window_->leave()); }

 private:
  /// Like a collective call of an MPI, by messages that the pool does not see.
  void meet() {
    window_->publish_own();
    gather(true);
    window_->observe_own();
  }
  void gather(bool serving) {
    const std::uint32_t all = (++rounds_) * ranks;
    ++plan_.met;
    wait_until(world_, "the other", [&] {
      if (serving) window_->serve();
      return plan_.met >= all;
    });
  }
  void get_in_turn(std::uint32_t round) {
    if (round % ranks == self_) {
      get_what_was_stored(round);
      plan_.got = round;
    } else {
      wait_until(world_, "the other's get", [&] { return plan_.got == round; });
    }
  }
  void get_what_was_stored(std::uint32_t round) {
    must(window_->lock(other_, sync::Hold::shared));
    require(get(stored_at), 100 * (other_ + 1) + round, "gets");
    must(window_->unlock(other_));
  }
  void put(std::uint64_t at, std::uint64_t value) {
    const Extent piece{at, 8};
    must(window_->put(other_, {&piece, 1}, &value));
  }
  std::uint64_t get(std::uint64_t at) {
    const Extent piece{at, 8};
    std::uint64_t value = 0;
    must(window_->get(other_, {&piece, 1}, &value));
    return value;
  }
  std::uint64_t load(std::uint64_t at) {
    return pool_->memory().load_word(window_->segment(self_) + at);
  }
  void store(std::uint64_t value) {
    (void)load(stored_at);  // a store fetches the line
    std::memcpy(window_->segment(self_) + stored_at, &value, sizeof value);
  }
  void must(const Result<void>& result) {
    world_.require(result.has_value(), result ? "" : result.error().message);
  }
  void require(std::uint64_t found, std::uint64_t expected, const char* verb) {
    world_.require(found == expected,
                   fmt::format("rank {} {} {}, not {}", self_, verb, found, expected));
  }

  World& world_;
  Plan& plan_;
  std::uint32_t self_, other_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<Window> window_;
  std::uint32_t rounds_ = 0;
};

TEST(Collective, RendezvousOrdersLoadsAndStores) {
  SimulatedPool pool;
  pool.format_arena();
  const Plan empty{place_window(pool, segment_bytes)};
  Scenario scenario = pool.scenario("collective calls", ranks);
  scenario.body = [&](World& world) {
    auto plan = std::make_shared<Plan>(empty);
    for (std::uint32_t self = 0; self < ranks; ++self) {
      world.spawn(self, [&world, &pool, plan, self] {
        Rank rank(world, pool, *plan, self);
        for (std::uint32_t round = 0; round < rounds; ++round) rank.go_through(round, round < 2);
        rank.leave();
      });
    }
  };
  expect_held("window", "random schedules", explore(scenario, 60));
  expect_held("window", "random schedules", explore(with_lasting_copies(scenario), 40));
}

}  // namespace
}  // namespace penstock::sim::collective_test
