// Two ranks of a window that take turns outside the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "sim/tests/window_space.hpp"

namespace penstock::sim {

struct PairPlan : WindowSpace {
  std::uint32_t opened = 0;
  std::uint32_t step = 0;  ///< the ranks' turns, outside the pool
};

class PairRank {
 public:
  /// Attaches, and opens the window when the other rank has attached too. The plan gives its place,
  /// its members and its own number.
  PairRank(World& world, const SimulatedPool& simulated, PairPlan& plan, std::uint32_t self,
           std::uint64_t review_bytes = window::Options().review_bytes,
           std::function<void(std::uint32_t)> on_request = {})
      : world_(world), plan_(plan) {
    pool_ = plan.attach(world, simulated, self);
    ++plan.opened;
    world.until([&] { return plan.opened == 2; });
    window::Options options = plan.options(self);
    options.review_bytes = review_bytes;
    options.on_request = std::move(on_request);
    auto opened = window::Window::open(*pool_, std::move(options));
    world.require(opened.has_value(), opened ? "" : opened.error().message);
    window_ = std::move(*opened);
  }

  /// Touches nothing until the other has reached `step`.
  void await(std::uint32_t step) {
    world_.until([&] { return plan_.step >= step; });
  }
  void done(std::uint32_t step) { plan_.step = step; }
  void serve_until(std::uint32_t step) {
    while (plan_.step < step) {
      window_->serve();
      world_.yield();
    }
  }
  void sync() { must(window_->sync()); }
  void leave() { must(window_->leave()); }

 protected:
  void must(const Result<void>& result) {
    world_.require(result.has_value(), result ? "" : result.error().message);
  }

  World& world_;
  PairPlan& plan_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<window::Window> window_;
};

}  // namespace penstock::sim
