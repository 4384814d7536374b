// What the tests of asks and claims share: memory for a region, and a switch that serves the pool.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "accelerator/server.hpp"
#include "sim/tests/small_pool.hpp"

namespace penstock::sim {

using accelerator::Server;
using offload::Directory;
using offload::Region;
using offload::Shape;

/// As src/coll makes it: what an earlier owner had there stands until it is described.
inline std::optional<Object> make_room(SpaceUser& user, const std::string& name,
                                       const Shape& shape) {
  const auto made = user.arena->create(name, Region(0, shape).bytes(),
                                       {.lifetime = Lifetime::process, .zero = false});
  user.world.require(made || made.error().code == ErrorCode::no_space,
                     made ? "" : made.error().message);
  return made ? std::optional(*made) : std::nullopt;
}

inline Result<std::unique_ptr<Server>> open_server(World& world, const SmallPool& pool) {
  return Server::open({.attach = [&world, &pool](const pool::AttachOptions& options) {
    return Result<std::unique_ptr<pool::Pool>>(pool.attach(world, options));
  }});
}

}  // namespace penstock::sim
