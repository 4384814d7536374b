// The pools that this host has: in /dev/shm, on its devices, and the one that PENSTOCK_POOL names.
#pragma once

#include <string>
#include <vector>

#include "pool/pool.hpp"

namespace penstock::tools {

struct HostPool {
  std::string spec;
  Result<pool::Info> info;  ///< or why it cannot be looked at
};

/// In the order of their names. What is no pool at all is left out.
std::vector<HostPool> host_pools();

/// Pools that could not be looked at, told of on stderr at the end: those of other users in one
/// line.
class Refusals {
 public:
  void add(const std::string& spec, const Error& error);
  ~Refusals();

 private:
  std::vector<std::string> closed_;
};

}  // namespace penstock::tools
