// Shared by the tests of switches: memory for a region, the packets of its rank, and a switch that
// serves the pool.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerator/server.hpp"
#include "schedule/datatype.hpp"
#include "sim/tests/small_pool.hpp"

namespace penstock::sim {

using accelerator::Server;
using offload::Directory;
using offload::Region;
using offload::Shape;

/// As src/coll makes it: an earlier owner's contents stay until the region is described.
inline std::optional<Object> make_room(SpaceUser& user, const std::string& name,
                                       const Shape& shape) {
  const auto made = user.arena->create(name, Region(0, shape).bytes(),
                                       {.lifetime = Lifetime::process, .zero = false});
  user.world.require(made || made.error().code == ErrorCode::no_space,
                     made ? "" : made.error().message);
  return made ? std::optional(*made) : std::nullopt;
}

/// Chunk `index` of a region with one rank: a sum of numbers, which are `index + 1`.
inline void send_operand(const SpaceUser& user, const Region& region, std::uint64_t index) {
  const auto& memory = user.pool->memory();
  const std::vector<std::uint64_t> values(8, index + 1);
  memory.publish_bulk(user.pool->base() + region.source(0, index), values.data(), 64);
  memory.store_fence();
  const offload::Packet packet =
      offload::seal(offload::Command{.operation = offload::Operation::all_reduce,
                                     .datatype = static_cast<std::uint8_t>(coll::Datatype::uint64),
                                     .communicator = region.shape().communicator,
                                     .sequence = static_cast<std::uint32_t>(index),
                                     .ranks = 1,
                                     .source = region.source(0, index),
                                     .elements = values.size()},
                    region.submission_place(0, index));
  memory.publish_line(user.pool->base() + region.submission(0, index), &packet);
  memory.store_fence();
}

inline Result<std::unique_ptr<Server>> open_server(World& world, const SimulatedPool& pool,
                                                   const offload::Role& role = {}) {
  return Server::open({.attach =
                           [&world, &pool](const pool::AttachOptions& options) {
                             return Result<std::unique_ptr<pool::Pool>>(
                                 pool.attach(world, options));
                           },
                       .role = role});
}

}  // namespace penstock::sim
