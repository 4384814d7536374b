// Ranks that lock a segment: one is stopped for several leases while it joins them, or in the
// middle of an update there, and goes on; the rank that has taken its place meanwhile must lose
// nothing. And more ranks than the first line of their list holds.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/late_stores.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/stops.hpp"
#include "sim/tests/window_space.hpp"
#include "window/window.hpp"

namespace penstock::sim::lockers_test {
namespace {

using window::Extent;
using window::Window;

constexpr std::uint32_t ranks = 4, target = 0, late = 1, second = 2, third = 3;
constexpr std::uint64_t segment_bytes = 2048;
constexpr Extent word{64, 8};
constexpr Extent words{64, 1536};  ///< in an update, of which only the first counts
constexpr std::uint64_t added_by[ranks] = {0, 1, 1 << 8, 1 << 16};

struct Plan : WindowSpace {
  std::uint32_t opened = 0;
  bool holds[ranks] = {};
  bool through = false;   ///< the late one, without having been stopped
  bool goes_on = false;   ///< it has had time to find out
  bool replaced = false;  ///< another has done the same meanwhile
  bool ended = false;
};

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : world_(world), plan_(plan), self_(self) {
    pool_ = plan.attach(world, simulated, self);
    ++plan.opened;
    wait_until(world, "the ranks", [&] { return plan.opened == ranks; });
    auto opened = Window::open(*pool_, plan.options(self));
    world.require(opened.has_value(), opened ? "" : opened.error().message);
    window_ = std::move(*opened);
  }

  void lock() {
    must(window_->lock(target, sync::Hold::exclusive));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Process& other = *world_.processes()[rank];
      world_.require(rank == self_ || !plan_.holds[rank] || other.stopped || gone(other),
                     fmt::format("rank {} holds the lock alone too", rank));
    }
    plan_.holds[self_] = true;
  }
  void unlock() {
    plan_.holds[self_] = false;
    must(window_->unlock(target));
  }
  void add() {
    must(window_->lock(target, sync::Hold::shared, window::no_check));
    must(window_->update(target, {&words, 1}, [this](std::byte* packed) {
      std::uint64_t value;
      std::memcpy(&value, packed, sizeof value);
      value += added_by[self_];
      std::memcpy(packed, &value, sizeof value);
      return true;
    }));
    must(window_->unlock(target));
  }
  std::uint64_t get() {
    std::uint64_t value = 0;
    must(window_->lock(target, sync::Hold::shared, window::no_check));
    must(window_->get(target, {&word, 1}, &value));
    must(window_->unlock(target));
    return value;
  }

 private:
  void must(const Result<void>& done) {
    world_.require(done.has_value(), done ? "" : done.error().message);
  }

  World& world_;
  Plan& plan_;
  std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<Window> window_;
};

enum class Call : std::uint8_t { lock, update };

/// The late one is stopped at this operation of its call, if the call has that many.
void be_late(Rank& rank, Plan& plan, Process& self, Call call, std::uint64_t operation) {
  stop_at(self, operation);
  if (call == Call::lock) {
    rank.lock();
    rank.unlock();
  } else {
    rank.add();
  }
  never_stop(self);
  plan.through = true;
}

/// Does the same while the late one is stopped, and then lets it go on.
void replace(World& world, const SimulatedPool& simulated, Rank& rank, Plan& plan, Call call) {
  Process& stopped = *world.processes()[late];
  const std::uint64_t lease_ns = simulated.lease_ns(world);
  wait_until(world, "the late one to be stopped", [&] { return stopped.stopped || plan.through; });
  if (stopped.stopped) {
    call == Call::lock ? rank.lock() : rank.add();
    plan.replaced = true;
    stopped.stopped = false;
    world.sleep(lease_ns);  // it ends, or waits for the lock if it did not have to be passed over
  }
  plan.goes_on = true;
  world.sleep(lease_ns);  // a third one tries meanwhile
  if (plan.replaced && call == Call::lock) rank.unlock();
}

void look(World& world, Rank& rank, Plan& plan, Call call) {
  wait_until(world, "its turn", [&] { return plan.goes_on; });
  if (call == Call::lock) {
    rank.lock();
    rank.unlock();
  } else {
    const Process& stopped = *world.processes()[late];
    wait_until(world, "the late one to end", [&] { return gone(stopped) || plan.through; });
    const std::uint64_t sum = rank.get(), wanted = plan.replaced ? added_by[second] : 0;
    world.require(sum == wanted || sum == wanted + added_by[late],
                  fmt::format("the sum is {:#x}", sum));
  }
  plan.ended = true;
}

Scenario stopped_at(const SimulatedPool& pool, const Plan& empty, Call call,
                    std::uint64_t operation) {
  Scenario scenario =
      pool.scenario(fmt::format("lockers, a rank is stopped at operation {} of {}", operation,
                                call == Call::lock ? "its first lock" : "an update"),
                    ranks);
  scenario.swarm = false;
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, &empty, call, operation](World& world) {
    auto plan = std::make_shared<Plan>(empty);
    for (std::uint32_t self = 0; self < ranks; ++self) {
      Process& process = world.spawn(self, [&world, &pool, plan, self, call, operation] {
        Rank rank(world, pool, *plan, self);
        if (self == late) be_late(rank, *plan, world.self(), call, operation);
        if (self == second) replace(world, pool, rank, *plan, call);
        if (self == third) look(world, rank, *plan, call);
        wait_until(world, "the end", [&] { return plan->ended; });
      });
      process.may_exit = self == late;
    }
  };
  return scenario;
}

/// A process that is stopped between its last look for a verdict and the store after it still
/// stores (docs/protocols/pool.md, "Given up"): that is one operation of each run.
void expect_one_at_most(Call call, std::uint64_t operations) {
  SimulatedPool pool;
  pool.format_arena();
  const Plan empty{place_window(
      pool, std::array{segment_bytes, std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{0}})};
  RunStatistics all;
  for (const std::uint32_t switching : {50u, 300u}) {
    std::uint64_t runs = 0, failures = 0;
    std::string where;
    for (std::uint64_t operation = 1; operation <= operations; ++operation) {
      Scenario scenario = stopped_at(pool, empty, call, operation);
      scenario.faults.switching = switching;
      const RunStatistics these = explore(scenario, 1);
      runs = these.runs;
      all.runs += these.runs;
      all.operations += these.operations;
      if (these.failures == 0) continue;
      failures += these.failures;
      where += fmt::format(" {}", operation);
      all.first_failure = these.first_failure;
    }
    EXPECT_LE(failures, runs) << "operations" << where << '\n' << all.first_failure;
  }
  report("window", "stops", all);
}

TEST(Lockers, SkippedJoinerBlocksNobody) {
  expect_one_at_most(Call::lock, 50);
}

TEST(Lockers, SkippedUpdaterUndoesNoUpdate) {
  expect_one_at_most(Call::update, 90);
}

// ---- many ranks ---------------------------------------------------------------------------------

/// The last two find the first chunk of the list, beyond its line.
constexpr std::uint32_t many = 9, nodes_of_many = 3;

struct Crowd : WindowSpace {
  std::uint32_t opened = 0, through = 0;
  std::uint32_t holder = many;
};

/// Adds to a word of rank 0 by gets and puts, which only the lock keeps apart.
void add_alone(World& world, const SimulatedPool& simulated, Crowd& crowd, std::uint32_t self) {
  const auto pool = crowd.attach(world, simulated, self);
  ++crowd.opened;
  wait_until(world, "the ranks", [&] { return crowd.opened == many; });
  const auto opened = Window::open(*pool, crowd.options(self));
  world.require(opened.has_value(), opened ? "" : opened.error().message);
  Window& window = **opened;
  const auto must = [&](const Result<void>& done) {
    world.require(done.has_value(), done ? "" : done.error().message);
  };
  for (std::uint64_t round = 1; round <= 2; ++round) {
    must(window.lock(target, sync::Hold::exclusive));
    world.require(std::exchange(crowd.holder, self) == many, "two hold the lock alone");
    std::uint64_t value = 0;
    must(window.get(target, {&word, 1}, &value));
    ++value;
    must(window.put(target, {&word, 1}, &value));
    crowd.holder = many;
    must(window.unlock(target));
  }
  must(window.leave());
  if (self == target) {
    const std::uint64_t sum =
        pool->memory().load_word(pool->base() + crowd.members[target].offset + word.at);
    world.require(sum == 2 * many, fmt::format("the sum is {}", sum));
  }
  ++crowd.through;
  wait_until(world, "the ranks to leave", [&] { return crowd.through == many; });
}

TEST(Lockers, MoreThanALineHoldsExcludeEachOther) {
  SimulatedPool pool({.max_processes = many + 3});
  pool.format_arena();
  std::array<std::uint64_t, many> sizes{};
  sizes[target] = segment_bytes;
  const Crowd empty{place_window(pool, sizes)};
  Scenario scenario = pool.scenario("lockers, more than a line holds", nodes_of_many);
  scenario.max_steps = 6'000'000;
  scenario.body = [&](World& world) {
    auto crowd = std::make_shared<Crowd>(empty);
    for (std::uint32_t self = 0; self < many; ++self)
      world.spawn(self % nodes_of_many,
                  [&world, &pool, crowd, self] { add_alone(world, pool, *crowd, self); });
  };
  expect_held("window", "random schedules", explore(scenario, 40));
  expect_held("window", "random schedules", explore(with_lasting_copies(scenario), 160));
  expect_held("window", "random schedules", explore(with_late_stores(scenario), 10));
}

}  // namespace
}  // namespace penstock::sim::lockers_test
