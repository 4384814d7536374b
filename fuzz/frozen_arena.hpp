// A pool with an arena, set up once; the changes of each input are undone before the next one.
#pragma once

#include "arena/arena.hpp"
#include "fuzz/expect.hpp"
#include "fuzz/input.hpp"
#include "fuzz/pool_in_memory.hpp"
#include "fuzz/virtual_time.hpp"

namespace penstock::fuzz {

/// Base of a target's World, whose constructor freezes the pool at its end.
struct FrozenArena {
  explicit FrozenArena(coherence::Mode mode) : frozen(PoolShape{.mode = mode}) {
    auto opened = arena::Arena::open(frozen.pool());
    need(opened);
    arena = std::move(*opened);
  }
  arena::Object make(const std::string& name, std::uint64_t bytes,
                     const arena::CreateOptions& options = {}) const {
    const auto object = arena->create(name, bytes, options);
    need(object);
    return *object;
  }

  FrozenPool frozen;
  std::unique_ptr<arena::Arena> arena;
};

/// Returns the World of a mode, reset to its initial state.
template <class World>
World& fresh(coherence::Mode mode) {
  static World hardware_world(coherence::Mode::hardware);
  static World software_world(coherence::Mode::software);
  World& world = mode == coherence::Mode::software ? software_world : hardware_world;
  world.frozen.reset();
  restart_time();
  return world;
}

/// Chooses the mode for an input.
inline coherence::Mode choose_mode(Input& input) {
  return input.flag() ? coherence::Mode::software : coherence::Mode::hardware;
}

}  // namespace penstock::fuzz
