// Attachments of a simulated process in a pool that may be full.
#pragma once

#include <memory>
#include <vector>

#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {

/// The attachments of one process.
using Attachments = std::vector<std::unique_ptr<pool::Pool>>;

/// Errors: no_slots.
inline Result<std::unique_ptr<pool::Pool>> try_to_attach(World& world,
                                                         const SimulatedPool& simulated) {
  return pool::attach_as({.spec = simulated.path()},
                         {world.host(world.self().node), world.identity(world.self())});
}

/// Takes all slots that the pool has. They are not released automatically.
inline void take_all_slots(World& world, const SimulatedPool& simulated, Attachments& all) {
  for (;;) {
    auto next = try_to_attach(world, simulated);
    if (!next) {
      world.require(next.error().code == ErrorCode::no_slots, next.error().message);
      return;
    }
    all.push_back(std::move(*next));
  }
}

}  // namespace penstock::sim
