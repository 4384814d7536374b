// Space for a window in a simulated pool's arena.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/tests/simulated_pool.hpp"
#include "window/window.hpp"

namespace penstock::sim {

/// The form of barriers of many ranks.
inline constexpr group::BarrierForm a_tree_of_few{.flat_up_to = 1, .fan_in = 2};

struct WindowSpace {
  static constexpr std::uint64_t room_of_rank = 8 << 10;  ///< for its words, and those that it
                                                          ///< makes

  std::uint64_t area = 0;
  std::vector<window::Member> members;  ///< without tokens; a rank with 0 bytes has no place

  /// From now on the calling process is this rank of a new window. No rank uses the words of the
  /// last one any more.
  void announce(std::uint32_t self, const pool::Pool& pool) {
    window::Member& member = members[self];
    member.token = pool.token();
    member.node = pool.node();
    window::clear_words(pool.memory(), pool.base() + member.words);
  }
  /// The same for a process that attaches now.
  std::unique_ptr<pool::Pool> attach(World& world, const SimulatedPool& simulated,
                                     std::uint32_t self) {
    auto pool = simulated.attach(world, {.rank = static_cast<std::int32_t>(self), .job = "sim"});
    announce(self, *pool);
    return pool;
  }
  /// A rank's options, once all have announced themselves.
  window::Options options(std::uint32_t self) const {
    window::Options options;
    options.members = members;
    options.self = self;
    const std::uint64_t end = members[self].words + room_of_rank;
    options.more = [next = members[self].words + window::words_bytes(),
                    end](std::uint64_t bytes) mutable -> Result<std::uint64_t> {
      if (bytes > end - next) return fail(ErrorCode::no_space, "a rank's room is too small");
      next += bytes;
      return next - bytes;
    };
    return options;
  }
};

/// Objects named after `name`, one segment for each rank.
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
    space.area = make(name + " area", std::size(segment_bytes) * WindowSpace::room_of_rank);
    for (const std::uint64_t bytes : segment_bytes) {
      const std::uint64_t rank = space.members.size();
      const std::string segment = fmt::format("{} segment {}", name, rank);
      window::Member member;
      member.offset = bytes == 0 ? 0 : make(segment, bytes);
      member.bytes = bytes;
      member.words = space.area + rank * WindowSpace::room_of_rank;
      space.members.push_back(member);
    }
  });
  return space;
}

}  // namespace penstock::sim
