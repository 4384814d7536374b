// Processes that are led step by step.
#pragma once

#include <functional>
#include <memory>

#include "sim/tests/small_pool.hpp"

namespace penstock::sim {

/// A process that does one task after the other, told by means that leave no trace in the pool:
/// what one has brought to the device the next must find.
class Puppet {
 public:
  using Task = std::function<void(SpaceUser&)>;
  Puppet(World& world, const SimulatedPool& pool, std::uint32_t node)
      : world_(world), state_(std::make_shared<State>()) {
    process_ = &world.spawn(node, [&world, &pool, state = state_] {
      SpaceUser user(world, pool, "sim");
      while (!state->ended) {
        wait_until(world, "a task", [&] { return state->task || state->ended; });
        if (state->task) state->task(user);
        state->task = nullptr;
      }
    });
  }
  void starts(Task task) { state_->task = std::move(task); }
  void does(Task task) {
    starts(std::move(task));
    await();
  }
  bool is_idle() const { return !state_->task; }
  void await() {
    wait_until(world_, "a puppet", [this] { return is_idle(); });
  }
  void end() { state_->ended = true; }
  Process& process() const { return *process_; }

 private:
  struct State {
    Task task;
    bool ended = false;
  };
  World& world_;
  Process* process_ = nullptr;
  std::shared_ptr<State> state_;
};

}  // namespace penstock::sim
