// The places in the sources that touch the pool: which were reached, and the one that is weakened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coherence/site.hpp"

namespace penstock::sim {

struct SiteCount {
  std::string file;  ///< from src/ on
  unsigned line;
  const char* what;
  std::uint64_t visits;
};

/// Since the program began, in all its child processes.
std::vector<SiteCount> visited_sites();
/// Writes them to $PENSTOCK_SITES, one "file:line:what visits" a line, when that is set.
void report_sites();

}  // namespace penstock::sim
