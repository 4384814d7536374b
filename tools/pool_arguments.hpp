// Shared by the commands of `penstock pool`.
#pragma once

#include <cstdint>
#include <string>

#include "arena/arena.hpp"

namespace penstock::tools {

struct PoolArguments {
  std::string spec, size, mode = "auto", group;
  std::uint32_t ranks = 0, slots = 0, nodes = device::default_nodes;
  std::string gone_host;
  bool overwrite = false, sparse = false, json = false, yes = false, force = false;
  bool all = false, discard_damaged_logs = false;
};

/// Prints the space in quarantine, the nodes whose caches it waits for, and the command that frees
/// it.
void print_quarantine(const std::string& spec, const arena::Quarantine& quarantine);

/// penstock pool gc.
int collect_pool(const PoolArguments& arguments);

}  // namespace penstock::tools
