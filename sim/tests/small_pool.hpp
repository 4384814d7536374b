// A pool with so little room that space is soon reused, and the processes that use it.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pool/members.hpp"
#include "sim/tests/simulated_pool.hpp"

namespace penstock::sim {

using arena::Arena;
using arena::Lifetime;
using arena::Object;

inline constexpr std::uint32_t nodes = 3;
inline constexpr std::uint64_t room = 48 << 10;  ///< of the pool, for all objects: soon reused
inline constexpr std::uint64_t segment_bytes = 5000;

/// A pool with little room.
class SmallPool : public SimulatedPool {
 public:
  explicit SmallPool(std::uint64_t room_wanted = room,
                     std::uint32_t lease_ms = PoolOptions{}.lease_ms)
      : SimulatedPool({.max_processes = 24, .max_nodes = nodes + 3, .lease_ms = lease_ms}) {
    once([this, room_wanted](World& world) {
      const auto attached = attach(world);
      const auto arena = open_arena(world, *attached);
      const auto free = arena->stats().bytes_largest_free;
      const auto ballast = arena->create("ballast", free - room_wanted, {.zero = false});
      world.require(ballast.has_value(), ballast ? "" : ballast.error().message);
      room_ = arena->stats().bytes_largest_free;
    });
  }
  std::uint64_t room_bytes() const { return room_; }

 private:
  std::uint64_t room_ = 0;
};

struct SpaceUser {
  SpaceUser(World& the_world, const SimulatedPool& simulated, const std::string& job = "",
            std::int32_t rank = -1)
      : world(the_world), pool(simulated.attach(world, {.rank = rank, .job = job})) {
    arena = simulated.open_arena(world, *pool);
  }

  /// Returns nullopt when no space is left, as when a node that is needed is silent.
  std::optional<Object> create(const std::string& name, std::uint64_t bytes) {
    const auto made = arena->create(name, bytes, {.lifetime = Lifetime::process});
    world.require(made || made.error().code == ErrorCode::no_space,
                  made ? "" : made.error().message);
    if (!made) return std::nullopt;
    return *made;
  }
  std::vector<std::uint64_t> pattern(const Object& object) const {
    return std::vector<std::uint64_t>(object.bytes / 8, object.generation << 16 | 0x22);
  }
  void publish(const Object& object) {
    pool->memory().publish_bulk(object.data, pattern(object).data(), object.bytes);
    pool->memory().full_fence();
  }
  /// By plain stores, which nothing writes back.
  static void store(const Object& object) { std::memset(object.data, 0x11, object.bytes); }
  void send_on_and_destroy(const Object& object) const {
    arena->publish_stores(object);
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

// ---- steps of cases ---------------------------------------------------------------------------

inline void wait_for_death(World& world) {
  world.sleep(an_hour_ns);
}

inline std::vector<Object> fill_and_publish(World& world, SpaceUser& worker, int most = 60) {
  std::vector<Object> made;
  for (int i = 0; i < most; ++i) {
    const auto object =
        worker.create(fmt::format("n{}.{}", world.self().number, i), 600 + world.random() % 900);
    if (!object) break;
    worker.publish(*object);
    made.push_back(*object);
  }
  return made;
}
inline void check(World& world, SpaceUser& worker, const std::vector<Object>& made) {
  for (const Object& object : made) worker.require_whole(object, "before eviction");
  world.evict_left_dirty();
  for (const Object& object : made) worker.require_whole(object, "when all has left");
}
/// Gives all available space to the next owner; its contents must stay when the dead's lines leave.
inline void give_away(World& world, SpaceUser& worker) {
  const auto next = fill_and_publish(world, worker);
  world.require(next.size() > 3, "there is too little space");
  check(world, worker, next);
}

/// Lets the processes of a case go on one after the other.
inline void await(World& world, const int& phase, int wanted) {
  wait_until(world, fmt::format("phase {}", wanted), [&] { return phase >= wanted; });
}
/// Tokens of other processes.
inline std::vector<std::uint64_t> tokens_of(const SpaceUser& worker, const std::string& job) {
  std::vector<std::uint64_t> tokens;
  for (const auto& record : worker.pool->members().processes()) {
    const std::uint64_t token = record.token();
    if (record.job == job && token != worker.pool->token()) tokens.push_back(token);
  }
  return tokens;
}
inline void await_deaths(World& world, const SpaceUser& worker,
                         const std::vector<std::uint64_t>& tokens) {
  wait_until(world, "deaths to be seen", [&] {
    return std::none_of(tokens.begin(), tokens.end(),
                        [&](std::uint64_t token) { return worker.pool->alive(token); });
  });
}
/// Waits until no process of the job is in the table.
inline void reclaim_dead(World& world, const SpaceUser& worker, const std::string& job) {
  wait_until(world, "the dead to be recorded", [&] {
    (void)worker.arena->collect();
    const auto records = worker.pool->members().processes();
    return std::none_of(records.begin(), records.end(),
                        [&](const auto& record) { return record.job == job && record.attached; });
  });
}
inline void store_to_foreign_object(World& world, const SpaceUser& worker,
                                    const std::string& name) {
  const auto opened = worker.arena->open(name);
  world.require(opened.has_value(), "not opened");
  SpaceUser::store(*opened);
}

inline Scenario case_of(const SmallPool& pool, const std::string& name) {
  Scenario scenario = pool.scenario("quarantine, " + name, nodes);
  scenario.max_steps = 8'000'000;
  return scenario;
}

/// All space is free once every node has been visited.
inline void require_all_back(World& world, const SmallPool& pool, std::uint32_t of = nodes) {
  SpaceUser worker(world, pool);
  wait_until(world, "the dead to be found", [&] {
    const auto collected = worker.arena->collect();
    world.require(collected.has_value(), collected ? "" : collected.error().message);
    const auto records = worker.pool->members().processes();
    return std::count_if(records.begin(), records.end(),
                         [](const auto& record) { return record.attached; }) == 1;
  });
  pool.visit_nodes(world, of);
  const auto collected = worker.arena->collect();
  world.require(collected.has_value(), collected ? "" : collected.error().message);
  const auto stats = worker.arena->stats();
  world.require(
      stats.objects == 1 && stats.bytes_quarantined == 0 &&
          stats.bytes_largest_free == pool.room_bytes(),
      fmt::format("{} objects, {} B in quarantine, {} of {} B free in one piece", stats.objects,
                  stats.bytes_quarantined, stats.bytes_largest_free, pool.room_bytes()));
}

}  // namespace penstock::sim
