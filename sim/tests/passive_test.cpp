// Passive-target programs without barriers on memory without coherence: each rank draws its own,
// knows nothing of the others' progress, leaves the window when it is done, and then loads what the
// others have put.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/window_space.hpp"
#include "window/window.hpp"

namespace penstock::sim::passive_test {
namespace {

using window::Extent;
using window::Window;

constexpr std::uint32_t ranks = 4, nodes = 3;
/// Peers must ask for ranges of the large segments.
constexpr std::uint64_t segment_bytes[ranks] = {9000, 5000, 200, 9000};
/// Each rank has a cell of 8 bytes at each place, next to those of the others.
constexpr std::uint64_t places[] = {0, 64, 120, 4600, 8904};
/// The counters to which all ranks add lie behind the cells of the first place.
constexpr std::uint64_t counter_at = 8 * ranks;

struct Cells {
  std::uint64_t values[ranks][std::size(places)] = {};  ///< by writer
  std::uint64_t counter = 0;
};

/// Shared by the ranks outside the pool: where things are, and what was done.
struct Plan : WindowSpace {
  std::uint32_t opened = 0, left = 0, invalidated = 0;
  Cells cells[ranks];  ///< by target
};

bool has(std::uint32_t target, std::size_t place) {
  return places[place] + 8 * ranks <= segment_bytes[target];
}

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : world_(world), plan_(plan), self_(self) {
    pool_ = simulated.attach(world, {.rank = static_cast<std::int32_t>(self), .job = "sim"});
  }

  /// Uses a window from its beginning to its end. Returns false when a rank has died.
  bool live_through(std::uint32_t life) {
    plan_.announce(self_, *pool_);
    if (!all_have(plan_.opened, life)) return false;
    auto opened = Window::open(*pool_, plan_.options(self_));
    world_.require(opened.has_value(), opened ? "" : opened.error().message);
    window_ = std::move(*opened);
    if (!all_have(plan_.invalidated, life)) return false;
    for (std::uint64_t epochs = world_.random() % 6; epochs != 0; --epochs) {
      if (!epoch()) return false;
    }
    if (!held(window_->leave())) return false;
    window_.reset();
    if (!somebody_died()) check_own();
    return all_have(plan_.left, life);
  }

 private:
  bool somebody_died() const { return world_.victim() != nullptr && world_.victim()->dead; }
  bool all_have(std::uint32_t& count, std::uint32_t life) {
    ++count;
    wait_until(world_, "the ranks", [&] { return count >= ranks * (life + 1) || somebody_died(); });
    return count >= ranks * (life + 1);
  }
  bool held(const Result<void>& done) {
    if (done) return true;
    world_.require(done.error().code == ErrorCode::peer_dead && somebody_died(),
                   done.error().message);
    return false;
  }
  bool epoch() {
    const auto target = static_cast<std::uint32_t>(world_.random() % ranks);
    const sync::Hold hold = world_.random() % 2 == 0 ? sync::Hold::shared : sync::Hold::exclusive;
    switch (world_.random() % 4) {
      case 0:
        return store_own();
      case 1: {
        if (!held(window_->lock_all())) return false;
        for (std::uint32_t steps = 0; steps < 4; ++steps) {
          if (!reach((target + steps) % ranks)) return false;
        }
        return held(window_->unlock_all());
      }
      default:
        return held(window_->lock(target, hold)) && reach(target) && reach(target) &&
               held(window_->unlock(target));
    }
  }

  /// By plain stores; no rank may put to the same line meanwhile.
  bool store_own() {
    if (!held(window_->lock(self_, sync::Hold::exclusive))) return false;
    for (std::size_t place = 0; place < std::size(places); ++place) {
      if (!has(self_, place)) continue;
      std::byte* const at = window_->segment(self_) + cell_at(place);
      (void)pool_->memory().load_word(at);  // a store fetches the line
      const std::uint64_t value = ++last_;
      std::memcpy(at, &value, sizeof value);
      own(self_, place) = value;
    }
    return held(window_->unlock(self_));
  }

  bool reach(std::uint32_t target) {
    const std::size_t place = world_.random() % std::size(places);
    if (!has(target, place)) return true;
    const Extent cell{cell_at(place), 8};
    switch (world_.random() % 4) {
      case 0: {
        std::uint64_t found = 0;
        if (!held(window_->flush(target)) || !held(window_->get(target, {&cell, 1}, &found)))
          return false;
        require(found, own(target, place), "gets", target, place);
        return true;
      }
      case 1:
        return add(target);
      default: {
        const std::uint64_t value = ++last_;
        own(target, place) = value;
        return held(window_->put(target, {&cell, 1}, &value));
      }
    }
  }
  bool add(std::uint32_t target) {
    const auto one_more = [](std::byte* packed) {
      std::uint64_t value;
      std::memcpy(&value, packed, sizeof value);
      ++value;
      std::memcpy(packed, &value, sizeof value);
      return true;
    };
    const Extent counter{counter_at, 8};
    ++plan_.cells[target].counter;
    return held(window_->update(target, {&counter, 1}, one_more));
  }

  /// By plain loads: no rank accesses it any more, and no call follows MPI_Win_free.
  void check_own() {
    for (std::uint32_t writer = 0; writer < ranks; ++writer) {
      for (std::size_t place = 0; place < std::size(places); ++place) {
        if (!has(self_, place)) continue;
        require(load(places[place] + 8 * writer), plan_.cells[self_].values[writer][place], "finds",
                writer, place);
      }
    }
    require(load(counter_at), plan_.cells[self_].counter, "finds, counted", self_, 0);
  }
  std::uint64_t load(std::uint64_t at) {
    return pool_->memory().load_word(pool_->base() + plan_.members[self_].offset + at);
  }
  void require(std::uint64_t found, std::uint64_t expected, const char* verb, std::uint32_t other,
               std::size_t place) {
    world_.require(found == expected, fmt::format("rank {} {} {}, not {}: rank {}, place {}", self_,
                                                  verb, found, expected, other, place));
  }
  std::uint64_t cell_at(std::size_t place) const { return places[place] + 8 * self_; }
  std::uint64_t& own(std::uint32_t target, std::size_t place) {
    return plan_.cells[target].values[self_][place];
  }

  World& world_;
  Plan& plan_;
  std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<Window> window_;
  std::uint64_t last_ = 0;  ///< the last value stored
};

Plan plan_in(SimulatedPool& pool) {
  return {place_window(pool, segment_bytes)};
}

/// Rank 3 shares node 0 with rank 0.
Scenario without_barriers(const SimulatedPool& pool, const Plan& empty,
                          std::uint32_t victim = ranks) {
  constexpr std::uint32_t lives = 2;
  Scenario scenario = pool.scenario(
      fmt::format("passive target{}", victim < ranks ? fmt::format(", rank {} dies", victim) : ""),
      nodes);
  scenario.max_steps = 3'000'000;
  scenario.body = [&pool, &empty, victim](World& world) {
    auto plan = std::make_shared<Plan>(empty);
    for (std::uint32_t self = 0; self < ranks; ++self) {
      Process& process = world.spawn(self % nodes, [&world, &pool, plan, self] {
        Rank rank(world, pool, *plan, self);
        for (std::uint32_t life = 0; life < lives; ++life) {
          if (!rank.live_through(life)) return;
        }
      });
      if (self == victim) world.mark_victim(process);
    }
  };
  return scenario;
}

TEST(PassiveTarget, WhoLeavesAnswersAndFindsWhatWasPut) {
  SimulatedPool pool;
  pool.format_arena();
  const Plan plan = plan_in(pool);
  const Scenario scenario = without_barriers(pool, plan);
  expect_held("window", "random schedules", explore(scenario, 80));
  expect_held("window", "random schedules", explore(with_lasting_copies(scenario), 60));
}

TEST(PassiveTarget, DeathEndsWaitsOfOthers) {
  SimulatedPool pool;
  pool.format_arena();
  const Plan plan = plan_in(pool);
  expect_held("window", "crash points", crash_everywhere(without_barriers(pool, plan, 0), 80));
  expect_held("window", "crash points", crash_everywhere(without_barriers(pool, plan, 1), 80));
}

}  // namespace
}  // namespace penstock::sim::passive_test
