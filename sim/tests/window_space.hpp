// Space for a window in a simulated pool's arena.
#pragma once

#include <string>
#include <vector>

#include "sim/tests/simulated_pool.hpp"
#include "window/window.hpp"

namespace penstock::sim {

struct WindowSpace {
  std::uint64_t area = 0;
  std::vector<window::Member> members;  ///< without tokens; a rank with 0 bytes has no place
};

/// Objects named after `name`, one segment a rank.
template <class Sizes>
WindowSpace place_window(SimulatedPool& pool, const Sizes& segment_bytes,
                         const std::string& name = "window") {
  WindowSpace space;
  pool.once([&](World& world) {
    const auto attached = pool.attach(world);
    const auto arena = SimulatedPool::open_arena(world, *attached);
    const auto make = [&](const std::string& object_name, std::uint64_t bytes) {
      auto object = arena->create(object_name, bytes);
      world.require(object.has_value(), object ? "" : object.error().message);
      return object->offset;
    };
    space.area =
        make(name + " area",
             window::sync_area_bytes(static_cast<std::uint32_t>(std::size(segment_bytes))));
    for (const std::uint64_t bytes : segment_bytes) {
      const std::string segment = fmt::format("{} segment {}", name, space.members.size());
      space.members.push_back({0, bytes == 0 ? 0 : make(segment, bytes), bytes});
    }
  });
  return space;
}

}  // namespace penstock::sim
