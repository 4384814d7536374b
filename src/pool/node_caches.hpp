// Files beside a pool in simulated mode, one for each node: what that node's cache holds of it
// (docs/memory-model.md, "Simulated mode"). Only their names and their removal are known here.
#pragma once

#include <cstdint>
#include <string>

#include "pool/host_identity.hpp"

namespace penstock::pool {

/// Node `node` of `host`: 0 is the host itself, its emulated nodes count from 1. `pool_path` is the
/// path of the pool's first part; caches of a device's pool stand in /dev/shm.
std::string node_cache_path(const std::string& pool_path, std::uint64_t pool_id,
                            const HostIdentity& host, std::uint32_t node);

/// Removes the caches of whatever pools stood at that path before `pool_id`; 0: all of them.
void remove_node_caches(const std::string& pool_path, std::uint64_t pool_id);
/// Removes those that no process has open (each process holds a shared flock on its node's).
/// Gives their number.
std::uint32_t remove_unused_node_caches(const std::string& pool_path);

}  // namespace penstock::pool
