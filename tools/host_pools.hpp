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

/// The pool that was named, else the one of PENSTOCK_POOL, else the only one of this host: of those
/// that processes are attached to where there are any. Errors: not_found, or invalid_argument,
/// which names the candidates and the command line for each: `command` and a SPEC.
Result<std::string> named_or_only(const std::string& named, const std::string& command);

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
