// Threads of a rank in one window, on memory without coherence: while one waits in the middle of a
// protocol the others go on.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/handover_mutex.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/window_space.hpp"
#include "window/window.hpp"

namespace penstock::sim::window_threads_test {
namespace {

using window::Extent;
using window::Window;

constexpr std::uint32_t ranks = 2, threads = 3;
/// Peers must ask for its ranges.
constexpr std::uint64_t segment_bytes = 24'000;
constexpr std::uint64_t counters[] = {0, 20'000};  ///< all threads add to them
/// Far apart: each thread reaches a range that the others have not asked for.
constexpr std::uint64_t cell_of(std::uint32_t rank, std::uint32_t thread) {
  return 1024 + 64 * rank + 8192 * thread;
}

struct Plan : WindowSpace {
  std::uint32_t opened = 0;
  std::uint32_t arrived[8] = {};
  std::uint64_t added[ranks][std::size(counters)] = {};
  std::uint64_t put[ranks][ranks][threads] = {};  ///< the last ones, by target and origin
};

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : world_(world), plan_(plan), self_(self) {
    pool_ = plan.attach(world, simulated, self);
    ++plan.opened;
    wait_until(world, "the ranks", [&] { return plan.opened == ranks; });
    window::Options options = plan.options(self);
    options.idle = [this] {
      window_->store_fence();
      mutex_.let_in();
    };
    auto opened = Window::open(*pool_, std::move(options));
    world.require(opened.has_value(), opened ? "" : opened.error().message);
    window_ = std::move(*opened);
  }

  void go() {
    load_own();  // copies that must be dropped
    meet();
    must([](Window& w) { return w.lock_all(); });
    in_threads([this](std::uint32_t thread) { access_all(thread); });
    must([](Window& w) { return w.unlock_all(); });
    meet();
    check();
    in_threads([this](std::uint32_t thread) { lock_one(thread); });
    meet();
    check();
    for (int round = 0; round < 3; ++round) lock_once_for_all();
    meet();
    check();
    must([](Window& w) { return w.leave(); });
  }

 private:
  template <class Body>
  auto call(Body body) {
    const std::lock_guard guard(mutex_);
    auto done = body(*window_);
    window_->store_fence();
    return done;
  }
  template <class Body>
  void must(Body body) {
    const auto done = call(body);
    world_.require(done.has_value(), done ? "" : done.error().message);
  }
  /// Plays the program's progress thread.
  void serve() {
    if (!mutex_.try_lock()) return;
    window_->serve();
    mutex_.unlock();
  }
  void meet() {
    std::uint32_t& arrived = plan_.arrived[rounds_++];
    ++arrived;
    wait_until(world_, "the others", [&] {
      serve();
      return arrived == ranks;
    });
  }
  void in_threads(const std::function<void(std::uint32_t)>& body) {
    std::array<bool, threads> through{};
    std::vector<std::thread> all;
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      all.emplace_back([&, thread] {
        body(thread);
        through[thread] = true;
      });
    }
    wait_until(world_, "the threads", [&] {
      serve();
      return std::find(through.begin(), through.end(), false) == through.end();
    });
    for (auto& thread : all) thread.join();
  }

  void access_all(std::uint32_t thread) {
    constexpr std::uint32_t operations = 8;
    for (std::uint32_t i = 0; i < operations; ++i) {
      const auto target = static_cast<std::uint32_t>(world_.random() % ranks);
      if (world_.random() % 2 == 0) {
        add(target, world_.random() % std::size(counters));
      } else {
        put(target, thread, i + 1);
      }
    }
  }
  /// Each thread locks another target, with no other rank there.
  void lock_one(std::uint32_t thread) {
    const std::uint32_t target = (self_ + thread) % ranks;
    if (thread >= ranks) return;
    for (std::size_t i = 0; i < std::size(counters); ++i) {
      must([&](Window& w) { return w.lock(target, sync::Hold::exclusive); });
      add(target, i);
      must([&](Window& w) { return w.unlock(target); });
    }
  }
  /// The thread that first reaches rank 1 takes its lock for the others too; rank 1 locks alone.
  void lock_once_for_all() {
    if (self_ == 1) {
      must([](Window& w) { return w.lock(1, sync::Hold::exclusive); });
      add(1, 0);
      must([](Window& w) { return w.unlock(1); });
      return;
    }
    must([](Window& w) { return w.lock_all(); });
    in_threads([this](std::uint32_t) { add(1, 0); });
    must([](Window& w) { return w.unlock_all(); });
  }
  void add(std::uint32_t target, std::size_t counter) {
    ++plan_.added[target][counter];
    const Extent piece{counters[counter], 8};
    const auto one_more = [](std::byte* packed) {
      std::uint64_t value;
      std::memcpy(&value, packed, sizeof value);
      ++value;
      std::memcpy(packed, &value, sizeof value);
      return true;
    };
    must([&](Window& w) { return w.update(target, {&piece, 1}, one_more); });
  }
  /// Another thread ends the epoch.
  void put(std::uint32_t target, std::uint32_t thread, std::uint64_t value) {
    plan_.put[target][self_][thread] = value;
    const Extent piece{cell_of(self_, thread), 8};
    must([&](Window& w) { return w.put(target, {&piece, 1}, &value); });
  }

  void load_own() {
    each_place([this](std::uint64_t at) { (void)loaded(at); });
  }
  std::uint64_t loaded(std::uint64_t at) {
    return pool_->memory().load_word(window_->segment(self_) + at);
  }
  template <class Fn>
  static void each_place(Fn fn) {
    for (const std::uint64_t at : counters) fn(at);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint32_t thread = 0; thread < threads; ++thread) fn(cell_of(rank, thread));
    }
  }
  /// Reads by gets and, for its own segment, by plain loads.
  void check() {
    must([this](Window& w) { return w.lock(self_, sync::Hold::shared); });
    must([this](Window& w) { return w.lock(1 - self_, sync::Hold::shared); });
    for (std::uint32_t target = 0; target < ranks; ++target) {
      for (std::size_t i = 0; i < std::size(counters); ++i)
        expect(target, counters[i], plan_.added[target][i]);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        for (std::uint32_t thread = 0; thread < threads; ++thread)
          expect(target, cell_of(rank, thread), plan_.put[target][rank][thread]);
      }
    }
    must([this](Window& w) { return w.unlock(1 - self_); });
    must([this](Window& w) { return w.unlock(self_); });
    meet();
  }
  void expect(std::uint32_t target, std::uint64_t at, std::uint64_t expected) {
    const Extent piece{at, 8};
    std::uint64_t value = target == self_ ? loaded(at) : 0;
    if (target != self_) must([&](Window& w) { return w.get(target, {&piece, 1}, &value); });
    world_.require(value == expected, fmt::format("rank {} gets {} at {} of rank {}, not {}", self_,
                                                  value, at, target, expected));
  }

  World& world_;
  Plan& plan_;
  std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
  base::HandoverMutex mutex_;
  std::unique_ptr<Window> window_;
  std::uint32_t rounds_ = 0;
};

Scenario shared_by_threads(SimulatedPool& pool) {
  const Plan plan{place_window(pool, std::vector(ranks, segment_bytes))};
  Scenario scenario = pool.scenario("threads of a rank", ranks);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, plan](World& world) {
    auto shared = std::make_shared<Plan>(plan);
    for (std::uint32_t self = 0; self < ranks; ++self) {
      world.spawn(self, [&world, &pool, shared, self] { Rank(world, pool, *shared, self).go(); });
    }
  };
  return scenario;
}

TEST(WindowThreads, GoOnWhileOneWaitsAndLoseNothing) {
  SimulatedPool pool;
  pool.format_arena();
  const Scenario threads_of_ranks = shared_by_threads(pool);
  expect_held("window", "random schedules", explore(threads_of_ranks, 60));
  expect_held("window", "random schedules", explore(with_lasting_copies(threads_of_ranks), 40));
}

}  // namespace
}  // namespace penstock::sim::window_threads_test
