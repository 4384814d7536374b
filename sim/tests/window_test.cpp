// Windows on memory without coherence: epochs of all kinds, with turns outside the pool, own loads
// and stores between them, ranks that share a node, ranks that die.
#include "window/window.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/window_space.hpp"

namespace penstock::sim::window_test {
namespace {

using window::Extent;
using window::Window;

constexpr std::uint32_t ranks = 4, nodes = 3;
/// Small ones, one with ranges that peers must ask for, and none.
constexpr std::uint64_t segment_bytes[ranks] = {3 * 64, 9000, 0, 200};
/// Places of the cells of 8 bytes: several in a line, and far from each other.
constexpr std::uint64_t places[] = {0, 8, 24, 64, 120, 184, 4200, 4208, 8992, 8904};

enum class Epoch : std::uint8_t { fence, post_start, lock, lock_all };
enum class Use : std::uint8_t { nothing, put, get, own_store, add };

struct Cell {
  Use use = Use::nothing;
  std::uint32_t origin = 0;  ///< of put and get; all others add
};

/// The operation on each cell in a round; drawn before any rank runs, so that all know it.
struct Round {
  Epoch epoch;
  sync::Hold hold;
  Cell cells[ranks][std::size(places)];
};

bool has_cell(std::uint32_t target, std::size_t cell) {
  return places[cell] + 8 <= segment_bytes[target];
}

struct Plan : WindowSpace {
  std::vector<Round> rounds;
  std::uint32_t arrived[64] = {};  ///< at the barriers between the steps
  std::vector<const Process*> processes;
  std::uint32_t opened = 0;
  std::uint64_t review_bytes = 0;
  group::BarrierForm fences;
};

std::uint64_t stored_value(std::size_t round, std::uint32_t target, std::size_t cell) {
  return (round + 1) * 1'000'000 + target * 1000 + cell;
}

Round draw(World& world) {
  Round round{};
  round.epoch = static_cast<Epoch>(world.random() % 4);
  // Updates take a lock, which orders earlier puts.
  const std::uint32_t uses = world.random() % 2 == 0 ? 5 : 4;
  round.hold = world.random() % 2 == 0 ? sync::Hold::shared : sync::Hold::exclusive;
  for (std::uint32_t target = 0; target < ranks; ++target) {
    for (std::size_t cell = 0; cell < std::size(places); ++cell) {
      if (!has_cell(target, cell)) continue;
      Cell& drawn = round.cells[target][cell];
      drawn.use = static_cast<Use>(world.random() % uses);
      drawn.origin = static_cast<std::uint32_t>(world.random() % ranks);
      // MPI has no epoch of a rank with itself here.
      if (round.epoch == Epoch::post_start && drawn.origin == target)
        drawn.origin = (target + 1) % ranks;
    }
  }
  return round;
}

class Rank {
 public:
  Rank(World& world, const SimulatedPool& simulated, Plan& plan, std::uint32_t self)
      : world_(world), plan_(plan), self_(self) {
    pool_ = plan.attach(world, simulated, self);
    ++plan.opened;
    model_.assign(ranks, std::vector<std::uint64_t>(std::size(places)));
    renumber();
  }

  /// Returns false if a rank died before the window existed.
  bool open() {
    wait_until(world_, "the ranks", [&] { return plan_.opened == ranks || somebody_died(); });
    if (plan_.opened != ranks) return false;
    window::Options options = plan_.options(self_);
    options.review_bytes = plan_.review_bytes;
    options.fences = plan_.fences;
    auto opened = Window::open(*pool_, std::move(options));
    world_.require(opened.has_value(), opened ? "" : opened.error().message);
    window_ = std::move(*opened);
    return meet();
  }

  /// Returns false if it ended with the death of another rank.
  bool go_through(std::size_t number) {
    const Round& round = plan_.rounds[number];
    if (passive(round)) return go_through_locks(number);
    store_own(number);
    if (!begin(round) || !access_all(number) || !end(round)) return false;
    count(number);
    check_own();
    // A fence epoch is still open; no rank may store before all have read.
    return meet() && get_from_others() && meet();
  }

  /// Frees the window and makes another one in the same space, in which each rank gets the segment
  /// of the next one. Returns false if a rank has died.
  bool change_hands() {
    store_all_own();
    if (!held(window_->leave()) || !meet()) return false;
    window_.reset();
    self_ = (self_ + ranks - 1) % ranks;
    plan_.announce(self_, *pool_);
    if (!meet()) return false;
    renumber();
    return open();
  }
  const std::string& death() const { return death_; }
  Window& window() { return *window_; }

  /// All or none of the living pass; it sends no buffered stores.
  bool meet() {
    const std::uint32_t round = rounds_++;
    ++plan_.arrived[round];
    wait_until(world_, "the others", [&] {
      if (window_ != nullptr) window_->serve();  // as the progress thread of a program does
      return plan_.arrived[round] == ranks || somebody_died();
    });
    return plan_.arrived[round] == ranks;
  }

 private:
  static bool passive(const Round& round) {
    return round.epoch == Epoch::lock || round.epoch == Epoch::lock_all;
  }
  void renumber() {
    others_.clear();
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (rank != self_) others_.push_back(rank);
    }
  }
  bool somebody_died() const { return world_.victim() != nullptr && world_.victim()->dead; }

  bool held(const Result<void>& done) {
    if (done) return true;
    death_ = done.error().message;
    world_.require(done.error().code == ErrorCode::peer_dead && somebody_died(), death_);
    world_.require(names_a_dead() || death_.ends_with(" left"), death_);
    return false;
  }

  bool names_a_dead() const {
    return std::any_of(world_.processes().begin(), world_.processes().end(),
                       [&](const auto& process) {
                         const std::string name = fmt::format("rank {} (pid", process->number);
                         return process->dead && death_.find(name) != std::string::npos;
                       });
  }

  bool begin(const Round& round) {
    if (round.epoch == Epoch::fence) return held(window_->fence());
    return held(window_->post(others_)) && held(window_->start(others_));
  }
  bool end(const Round& round) {
    if (round.epoch == Epoch::fence) return held(window_->fence());
    if (!held(window_->complete())) return false;
    if (world_.random() % 2 == 0) return held(window_->wait());
    for (;;) {
      const auto done = window_->test();
      if (!done) return held(unexpected(done.error()));
      if (*done) return true;
      world_.sleep(100'000);
    }
  }

  bool go_through_locks(std::size_t number) {
    const Round& round = plan_.rounds[number];
    if (!held(window_->lock(self_, sync::Hold::exclusive))) return false;
    store_own(number);
    if (!held(window_->unlock(self_)) || !meet()) return false;
    if (round.epoch == Epoch::lock_all) {
      // No rank takes an exclusive lock here: the lock need not be taken.
      const std::uint32_t asserts = world_.random() % 2 == 0 ? std::uint32_t{window::no_check} : 0;
      if (!held(window_->lock_all(asserts)) || !access_all(number)) return false;
      if (round.hold == sync::Hold::shared) {
        count(number);
        if (!held(window_->flush_all()) || !meet() || !get_cells_of_others()) return false;
        return held(window_->unlock_all()) && meet() && check_own_under_lock();
      }
      if (!held(window_->unlock_all())) return false;
    } else {
      for (std::uint32_t target = 0; target < ranks; ++target) {
        if (!held(window_->lock(target, round.hold))) return false;
        if (!reach(number, target) || !held(window_->unlock(target))) return false;
      }
    }
    count(number);
    return meet() && check_own_under_lock();
  }
  bool check_own_under_lock() {
    if (!held(window_->lock(self_, sync::Hold::shared))) return false;
    check_own();
    return held(window_->unlock(self_)) && meet();
  }

  /// Any rank gets what an epoch has put, although the owner has done nothing since.
  bool get_from_others() {
    return held(window_->lock_all()) && get_cells_of_others() && held(window_->unlock_all());
  }
  bool get_cells_of_others() {
    for (const std::uint32_t target : others_) {
      for (std::size_t cell = 0; cell < std::size(places); ++cell) {
        if (!has_cell(target, cell)) continue;
        const Extent piece{places[cell], 8};
        std::uint64_t value = 0;
        if (!held(window_->get(target, {&piece, 1}, &value))) return false;
        const std::uint64_t expected = model_[target][cell];
        world_.require(value == expected, wrong("later gets", target, cell, value, expected));
      }
    }
    return true;
  }

  /// By plain stores, as a program does.
  void store_own(std::size_t number) {
    for (std::size_t cell = 0; cell < std::size(places); ++cell) {
      if (plan_.rounds[number].cells[self_][cell].use == Use::own_store)
        store_cell(cell, stored_value(number, self_, cell));
    }
  }
  void store_cell(std::size_t cell, std::uint64_t value) {
    std::byte* const at = window_->segment(self_) + places[cell];
    (void)pool_->memory().load_word(at);  // a store fetches the line
    std::memcpy(at, &value, sizeof value);
  }
  /// The last stores to a window. The next owner of the space must find them, and none of their
  /// lines may arrive later.
  void store_all_own() {
    for (std::uint32_t target = 0; target < ranks; ++target) {
      for (std::size_t cell = 0; cell < std::size(places); ++cell) {
        if (!has_cell(target, cell)) continue;
        model_[target][cell] = stored_value(100 + rounds_, target, cell);
        if (target == self_) store_cell(cell, model_[target][cell]);
      }
    }
  }

  bool access_all(std::size_t number) {
    for (std::uint32_t target = 0; target < ranks; ++target) {
      if (plan_.rounds[number].epoch == Epoch::post_start && target == self_) continue;
      if (!reach(number, target)) return false;
    }
    return true;
  }

  bool reach(std::size_t number, std::uint32_t target) {
    const Round& round = plan_.rounds[number];
    for (std::size_t cell = 0; cell < std::size(places); ++cell) {
      const Cell& planned = round.cells[target][cell];
      const Extent piece{places[cell], 8};
      if (planned.use == Use::put && planned.origin == self_) {
        const std::uint64_t value = stored_value(number, target, cell);
        if (!held(window_->put(target, {&piece, 1}, &value))) return false;
      }
      const bool own_store = planned.use == Use::own_store;
      if ((planned.use == Use::get || own_store) && planned.origin == self_) {
        std::uint64_t value = 0;
        if (!held(window_->get(target, {&piece, 1}, &value))) return false;
        const std::uint64_t expected =
            own_store ? stored_value(number, target, cell) : model_[target][cell];
        world_.require(value == expected, wrong("gets", target, cell, value, expected));
      }
      if (planned.use == Use::add) {
        const auto add = [&](std::byte* packed) {
          std::uint64_t value;
          std::memcpy(&value, packed, sizeof value);
          value += self_ + 1;
          std::memcpy(packed, &value, sizeof value);
          return true;
        };
        if (!held(window_->update(target, {&piece, 1}, add))) return false;
      }
    }
    return true;
  }

  /// Computes the cells after the round.
  void count(std::size_t number) {
    const Round& round = plan_.rounds[number];
    for (std::uint32_t target = 0; target < ranks; ++target) {
      for (std::size_t cell = 0; cell < std::size(places); ++cell) {
        const Use use = round.cells[target][cell].use;
        if (use == Use::put || use == Use::own_store)
          model_[target][cell] = stored_value(number, target, cell);
        if (use != Use::add) continue;
        for (std::uint32_t origin = 0; origin < ranks; ++origin) {
          if (round.epoch != Epoch::post_start || origin != target)
            model_[target][cell] += origin + 1;
        }
      }
    }
  }

  /// By plain loads.
  void check_own() {
    for (std::size_t cell = 0; cell < std::size(places); ++cell) {
      if (!has_cell(self_, cell)) continue;
      const std::uint64_t value = pool_->memory().load_word(window_->segment(self_) + places[cell]);
      const std::uint64_t expected = model_[self_][cell];
      world_.require(value == expected, wrong("finds", self_, cell, value, expected));
    }
  }

  std::string wrong(const char* verb, std::uint32_t target, std::size_t cell, std::uint64_t value,
                    std::uint64_t expected) const {
    return fmt::format("rank {} {} {} in cell {} of rank {}, not {}", self_, verb, value, cell,
                       target, expected);
  }

  World& world_;
  Plan& plan_;
  std::uint32_t self_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<Window> window_;
  std::vector<std::uint32_t> others_;
  std::vector<std::vector<std::uint64_t>> model_;
  std::uint32_t rounds_ = 0;
  std::string death_;
};

/// Space for a window, in the pool's arena.
Plan plan_in(SimulatedPool& pool) {
  return {place_window(pool, segment_bytes)};
}

/// Rank 3 shares node 0 with rank 0.
Scenario epochs(const SimulatedPool& pool, const Plan& empty, std::uint32_t rounds,
                std::uint32_t victim = ranks) {
  Scenario scenario = pool.scenario(
      fmt::format("windows{}", victim < ranks ? fmt::format(", rank {} dies", victim) : ""), nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, &empty, rounds, victim](World& world) {
    auto plan = std::make_shared<Plan>(empty);
    for (std::uint32_t i = 0; i < rounds; ++i) plan->rounds.push_back(draw(world));
    plan->review_bytes = world.random() % 2 == 0 ? 1 : 1 << 20;  // ranges are given back at once,
                                                                 // or never
    if (world.random() % 2 == 0) plan->fences = a_tree_of_few;
    for (std::uint32_t self = 0; self < ranks; ++self) {
      Process& process = world.spawn(self % nodes, [&world, &pool, plan, self] {
        Rank rank(world, pool, *plan, self);
        bool going = rank.open();
        for (std::size_t round = 0; going && round < plan->rounds.size(); ++round) {
          if (round != 0 && round % 3 == 0) going = rank.change_hands();
          going = going && rank.go_through(round);
        }
      });
      if (self == victim) world.mark_victim(process);
    }
  };
  return scenario;
}

TEST(Windows, AllEpochsMatchSequentialModel) {
  SimulatedPool pool;
  pool.format_arena();
  const Plan plan = plan_in(pool);
  expect_held("window", "random schedules", explore(epochs(pool, plan, 6), 60));
  expect_held("window", "random schedules",
              explore(with_lasting_copies(epochs(pool, plan, 6)), 40));
}

TEST(Windows, DeathEndsWaitsOfOthers) {
  SimulatedPool pool;
  pool.format_arena();
  const Plan plan = plan_in(pool);
  expect_held("window", "crash points", crash_everywhere(epochs(pool, plan, 4, 0), 120));
  expect_held("window", "crash points", crash_everywhere(epochs(pool, plan, 4, 1), 120));
}

}  // namespace
}  // namespace penstock::sim::window_test
