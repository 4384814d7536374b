// The pools that this host has: in /dev/shm, on its devices, and the one that PENSTOCK_POOL names.
#pragma once

#include <string>
#include <vector>

#include "penstock/pool.hpp"

namespace penstock::tools {

struct HostPool {
  std::string spec;
  Result<pool::Info> info;  ///< or why it cannot be looked at
};

/// In the order of their names. What is no pool at all is left out.
std::vector<HostPool> host_pools();

}  // namespace penstock::tools
