// A process's view of the pool's table of endpoints.
#pragma once

#include "sim/tests/simulated_pool.hpp"
#include "transport/endpoint_table.hpp"

namespace penstock::sim {

/// Besides what else stands in a small pool.
inline constexpr std::uint64_t room_for_the_table = 128 << 10;

inline transport::EndpointTable table_of(World& world, arena::Arena& arena) {
  auto table = transport::EndpointTable::open(arena);
  world.require(table.has_value(), table ? "" : table.error().message);
  return *table;
}
/// As the first endpoint ever does.
inline void make_table(SimulatedPool& pool) {
  pool.once([&pool](World& world) {
    const auto attached = pool.attach(world);
    const auto arena = SimulatedPool::open_arena(world, *attached);
    (void)table_of(world, *arena);
  });
}
/// Of who has a world and an arena, as SpaceUser.
template <class User>
transport::EndpointTable table_of(User& user) {
  return table_of(user.world, *user.arena);
}

}  // namespace penstock::sim
