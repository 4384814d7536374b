// Lines of the device by number, and liveness as the world itself knows it.
#pragma once

#include "sim/world/world.hpp"
#include "sync/sync.hpp"

namespace penstock::sim {

inline std::byte* line(World& world, std::uint64_t index) {
  return world.base() + index * line_bytes;
}

inline sync::AliveCheck alive_in(World& world) {
  return [&world](std::uint64_t token) { return world.alive(token); };
}

}  // namespace penstock::sim
