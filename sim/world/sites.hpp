// The places in the sources that access the pool: which were reached, and which one is weakened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coherence/site.hpp"

namespace penstock::sim {

struct SiteCount {
  std::string file;  ///< path from src/ on
  unsigned line;
  const char* what;
  std::uint64_t visits;
};

/// Counts since the program began, in all its child processes.
std::vector<SiteCount> visited_sites();
/// Writes them to $PENSTOCK_SIM_SITES, if set, one "file:line:what visits" a line.
void report_sites();

}  // namespace penstock::sim
