// Files beside a pool in simulated mode, one per node, with the contents of that node's cache
// (docs/memory-model.md, "Simulated mode"). This module only names and removes them.
#pragma once

#include <cstdint>
#include <string>

#include "pool/host_identity.hpp"

namespace penstock::pool {

/// Path of the cache of node `node` of `host`: 0 is the host itself, its emulated nodes count
/// from 1. `pool_path`: path of the pool's first part; the caches of a device's pool lie in
/// /dev/shm.
std::string node_cache_path(const std::string& pool_path, std::uint64_t pool_id,
                            const HostIdentity& host, std::uint32_t node);

/// Removes the caches of pools that were at that path before `pool_id`; 0: all caches.
void remove_node_caches(const std::string& pool_path, std::uint64_t pool_id);
/// Removes caches that no process has open (each process holds a shared flock on its node's cache).
/// Returns their number.
std::uint32_t remove_unused_node_caches(const std::string& pool_path);

}  // namespace penstock::pool
