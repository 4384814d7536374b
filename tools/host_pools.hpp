// The pools of this host: in /dev/shm, on its devices, and the one that PENSTOCK_POOL names.
#pragma once

#include <string>
#include <vector>

#include "pool/pool.hpp"

namespace penstock::tools {

struct HostPool {
  std::string spec;
  Result<pool::Info> info;  ///< or why it cannot be read
};

/// Returns them in the order of their names, without files that are not pools.
std::vector<HostPool> host_pools();

/// Returns the named pool, else that of PENSTOCK_POOL, else the only one of this host: if processes
/// are attached to any, only such pools count. Errors: not_found, or invalid_argument, which names
/// the candidates and the command line for each: `command` and a SPEC.
Result<std::string> named_or_only(const std::string& named, const std::string& command);

/// Collects pools that could not be read, and reports them on stderr at the end: those of other
/// users in one line.
class Refusals {
 public:
  void add(const std::string& spec, const Error& error);
  ~Refusals();

 private:
  std::vector<std::string> closed_;
};

}  // namespace penstock::tools
