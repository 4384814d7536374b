// A pool with so little room that space is soon used again, and who works in it.
#pragma once

#include <cstring>
#include <memory>
#include <optional>

#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {

using arena::Arena;
using arena::Lifetime;
using arena::Object;

inline constexpr std::uint32_t nodes = 3;
inline constexpr std::uint64_t room = 48 << 10;  ///< of the pool, for all objects: soon used again
inline constexpr std::uint64_t segment_bytes = 5000;

/// A pool with little room.
class SmallPool : public SimulatedPool {
 public:
  SmallPool() : SimulatedPool({.max_processes = 24, .max_nodes = nodes + 3}) {
    once([this](World& world) {
      const auto attached = attach(world);
      const auto arena = open_arena(world, *attached);
      const auto free = arena->stats().bytes_largest_free;
      const auto ballast = arena->create("ballast", free - room, {.zero = false});
      world.require(ballast.has_value(), ballast ? "" : ballast.error().message);
      room_ = arena->stats().bytes_largest_free;
    });
  }
  std::uint64_t room_bytes() const { return room_; }

 private:
  std::uint64_t room_ = 0;
};

struct SpaceUser {
  SpaceUser(World& the_world, const SimulatedPool& simulated, const std::string& job = "")
      : world(the_world), pool(simulated.attach(world, {.job = job})) {
    arena = simulated.open_arena(world, *pool);
  }

  /// Nullopt when no space is left, as where a node that is needed is silent.
  std::optional<Object> create(const std::string& name, std::uint64_t bytes) {
    const auto made = arena->create(name, bytes, {.lifetime = Lifetime::process});
    world.require(made || made.error().code == Code::no_space, made ? "" : made.error().message);
    if (!made) return std::nullopt;
    return *made;
  }
  std::vector<std::uint64_t> pattern(const Object& object) const {
    return std::vector<std::uint64_t>(object.bytes / 8, object.generation << 16 | 0x22);
  }
  void publish(const Object& object) {
    pool->memory().publish_bulk(object.data, pattern(object).data(), object.bytes);
    pool->memory().full_order();
  }
  /// By plain stores, which nothing sends on.
  static void store(const Object& object) { std::memset(object.data, 0x11, object.bytes); }
  void send_on_and_destroy(const Object& object) const {
    arena->send_on(object);
    (void)arena->destroy(object);
  }
  void require_whole(const Object& object, const char* when) {
    std::vector<std::uint64_t> words(object.bytes / 8);
    pool->memory().observe_bulk(words.data(), pool->base() + object.offset, words.size() * 8);
    world.require(words == pattern(object),
                  fmt::format("{}: what was published is gone, {:#x} is there", when, words[0]));
  }

  World& world;
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<Arena> arena;
};

}  // namespace penstock::sim
