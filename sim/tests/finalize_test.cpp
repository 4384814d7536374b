// Windows that still exist at MPI_Finalize, on memory without coherence. Each rank has them in an
// order of its own, and leaves all of them step by step as the MPI library does; meanwhile others
// still put. Then the space gets another owner.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/window_space.hpp"
#include "window/window.hpp"

namespace penstock::sim::finalize_test {
namespace {

using window::Extent;
using window::Window;

constexpr std::uint32_t ranks = 3, windows = 3;
/// Peers must ask for ranges of rank 0's segments.
constexpr std::uint64_t segment_bytes[ranks] = {9000, 700, 700};
/// Each rank stores to a cell of 8 bytes in each segment; the segment's owner by plain stores.
constexpr std::uint64_t cell_of(std::uint32_t writer) {
  return 512 + 8 * writer;
}

struct Plan {
  WindowSpace spaces[windows];
  group::BarrierForm fences;
  std::uint32_t attached = 0, opened = 0, left = 0, taken = 0;
  std::uint64_t stored[windows][ranks][ranks] = {};  ///< by window, target and writer
};

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : world_(world), plan_(plan), self_(self) {
    pool_ = simulated.attach(world, {.rank = static_cast<std::int32_t>(self), .job = "sim"});
    for (auto& space : plan.spaces) space.announce(self, *pool_);
    for (std::uint32_t i = 0; i < windows; ++i) store_fence_[i] = (i + self) % windows;
  }

  void go() {
    if (!all_have(plan_.attached)) return;
    for (std::uint32_t i = 0; i < windows; ++i) open(i);
    if (!all_have(plan_.opened)) return;
    for (std::uint64_t epochs = world_.random() % 5; epochs != 0; --epochs) {
      if (!epoch()) return;
    }
    finalize();
    if (!all_have(plan_.left)) return;
    take_the_space();
  }

 private:
  bool somebody_died() const { return world_.victim() != nullptr && world_.victim()->dead; }
  bool all_have(std::uint32_t& count) {
    ++count;
    wait_until(world_, "the ranks", [&] { return count == ranks || somebody_died(); });
    return count == ranks;
  }
  bool held(const Result<void>& done) {
    if (done) return true;
    world_.require(done.error().code == ErrorCode::peer_dead && somebody_died(),
                   done.error().message);
    return false;
  }
  void open(std::uint32_t i) {
    window::Options options = plan_.spaces[i].options(self_);
    options.idle = [this] { serve(); };
    options.fences = plan_.fences;
    auto opened = Window::open(*pool_, std::move(options));
    world_.require(opened.has_value(), opened ? "" : opened.error().message);
    windows_[i] = std::move(*opened);
  }

  /// Plays the program's progress thread, until a window is left.
  void serve() {
    for (std::uint32_t i = 0; i < windows; ++i)
      if (windows_[i] && served_[i]) windows_[i]->serve();
  }

  bool epoch() {
    const auto i = static_cast<std::uint32_t>(world_.random() % windows);
    const auto target = static_cast<std::uint32_t>(world_.random() % ranks);
    Window& window = *windows_[i];
    if (!held(window.lock(target, sync::Hold::exclusive))) return false;
    const Extent cell{cell_of(self_), 8};
    std::uint64_t& stored = plan_.stored[i][target][self_];
    const std::uint64_t value = ++stored;
    if (target == self_) {
      std::byte* const at = window.segment(self_) + cell.at;
      (void)pool_->memory().load_word(at);  // a store fetches the line
      std::memcpy(at, &value, sizeof value);
    } else if (!held(window.put(target, {&cell, 1}, &value))) {
      return false;
    }
    return held(window.unlock(target));
  }

  /// As in plugins/mpi/creation.cpp: leave_all_windows.
  void finalize() {
    for (const std::uint32_t i : store_fence_) windows_[i]->begin_leave();
    for (const std::uint32_t i : store_fence_) {
      served_[i] = false;
      if (held(windows_[i]->leave())) check(i);
    }
    for (auto& window : windows_) window.reset();
  }
  /// By plain loads, with which a program of the unified memory model ends.
  void check(std::uint32_t i) {
    for (std::uint32_t writer = 0; writer < ranks; ++writer) {
      const std::uint64_t found = pool_->memory().load_word(segment(i, self_) + cell_of(writer));
      const std::uint64_t stored = plan_.stored[i][self_][writer];
      world_.require(found == stored,
                     fmt::format("rank {} finds {}, not {}, of rank {} in window {}", self_, found,
                                 stored, writer, i));
    }
  }
  std::byte* segment(std::uint32_t i, std::uint32_t rank) const {
    return pool_->base() + plan_.spaces[i].members[rank].offset;
  }

  /// Each segment now belongs to the rank after its owner; no line may arrive there late.
  void take_the_space() {
    const std::uint32_t from = (self_ + 1) % ranks;
    std::vector<std::byte> mine(segment_bytes[from], std::byte{0x77}), seen(mine.size());
    for (std::uint32_t i = 0; i < windows; ++i)
      pool_->memory().publish_bulk(segment(i, from), mine.data(), mine.size());
    pool_->memory().full_fence();
    if (!all_have(plan_.taken)) return;
    constexpr int pauses = 20;
    for (int pause = 0; pause < pauses; ++pause) world_.sleep(1'000'000);
    for (std::uint32_t i = 0; i < windows; ++i) {
      pool_->memory().observe_bulk(seen.data(), segment(i, from), seen.size());
      world_.require(seen == mine, fmt::format("window {} of rank {} was stored to late", i, from));
    }
  }

  World& world_;
  Plan& plan_;
  std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
  std::array<std::unique_ptr<Window>, windows> windows_;
  std::array<std::uint32_t, windows> store_fence_{};
  std::array<bool, windows> served_{true, true, true};
};

Plan plan_in(SimulatedPool& pool) {
  Plan plan;
  for (std::uint32_t i = 0; i < windows; ++i)
    plan.spaces[i] = place_window(pool, segment_bytes, fmt::format("window {}", i));
  return plan;
}

Scenario finalize(const SimulatedPool& pool, const Plan& empty, std::uint32_t victim = ranks) {
  Scenario scenario = pool.scenario(
      fmt::format("MPI_Finalize{}", victim < ranks ? fmt::format(", rank {} dies", victim) : ""),
      ranks);
  scenario.max_steps = 3'000'000;
  scenario.body = [&pool, &empty, victim](World& world) {
    auto plan = std::make_shared<Plan>(empty);
    if (world.random() % 2 == 0) plan->fences = a_tree_of_few;
    for (std::uint32_t self = 0; self < ranks; ++self) {
      Process& process =
          world.spawn(self, [&world, &pool, plan, self] { Rank(world, pool, *plan, self).go(); });
      if (self == victim) world.mark_victim(process);
    }
  };
  return scenario;
}

TEST(Finalize, LeaveWindowsInAnyOrderAndReuseSpace) {
  SimulatedPool pool;
  pool.format_arena();
  const Plan plan = plan_in(pool);
  const Scenario scenario = finalize(pool, plan);
  expect_held("window", "random schedules", explore(scenario, 80));
  expect_held("window", "random schedules", explore(with_lasting_copies(scenario), 60));
}

TEST(Finalize, DeathEndsWaitsOfOthers) {
  SimulatedPool pool;
  pool.format_arena();
  const Plan plan = plan_in(pool);
  expect_held("window", "crash points", crash_everywhere(finalize(pool, plan, 0), 60));
  expect_held("window", "crash points", crash_everywhere(finalize(pool, plan, 1), 60));
}

}  // namespace
}  // namespace penstock::sim::finalize_test
