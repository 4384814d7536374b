// A process's view of the pool's table of endpoints.
#pragma once

#include "sim/tests/simulated_pool.hpp"
#include "sim/tests/stops.hpp"
#include "transport/endpoint_table.hpp"

namespace penstock::sim {

/// Besides the other contents of a small pool.
inline constexpr std::uint64_t room_for_the_table = 128 << 10;

inline transport::EndpointTable table_of(World& world, arena::Arena& arena) {
  auto table = transport::EndpointTable::open(arena);
  world.require(table.has_value(), table ? "" : table.error().message);
  return *table;
}
/// Makes the table, as the first endpoint of a pool does.
inline void make_table(SimulatedPool& pool) {
  pool.once([&pool](World& world) {
    const auto attached = pool.attach(world);
    const auto arena = SimulatedPool::open_arena(world, *attached);
    (void)table_of(world, *arena);
  });
}
inline std::unique_ptr<SimulatedPool> pool_with_a_table(const PoolOptions& options = {}) {
  auto pool = std::make_unique<SimulatedPool>(options);
  make_table(*pool);
  return pool;
}

/// A process with the table.
struct TableUser {
  TableUser(World& in, const SimulatedPool& pool, const char* job)
      : world(in),
        attached(pool.attach(in, {.job = job})),
        arena(SimulatedPool::open_arena(in, *attached)),
        table(table_of(in, *arena)) {}

  transport::Address claim() {
    const auto address = table.claim(1);
    world.require(address.has_value(), address ? "" : address.error().message);
    return *address;
  }

  World& world;
  std::unique_ptr<pool::Pool> attached;
  std::unique_ptr<arena::Arena> arena;
  transport::EndpointTable table;
};

/// The first process is stopped anywhere, declared dead by others, and goes on after `meanwhile`.
inline Scenario one_is_given_up(Scenario scenario, std::function<void(World&)> meanwhile) {
  scenario.name += ", one is given up";
  scenario.body = [body = scenario.body, meanwhile = std::move(meanwhile)](World& world) {
    body(world);
    Process& late = *world.processes()[0];
    stop_at(late, 300 + world.random() % 2500);
    world.spawn(1, [&world, &late, meanwhile] {
      wait_until(world, "it to be stopped", [&] { return late.stopped || gone(late); });
      meanwhile(world);
      late.stopped = false;
    });
  };
  return scenario;
}

/// `User` has a world and an arena, like SpaceUser.
template <class User>
transport::EndpointTable table_of(User& user) {
  return table_of(user.world, *user.arena);
}

}  // namespace penstock::sim
