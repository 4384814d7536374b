// The part of a pool that a job takes, measured with endpoints that exchange messages.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "bench/report.hpp"

namespace penstock::bench {

struct FootprintOptions {
  std::string pool;  ///< SPEC; "" for a temporary pool
  std::string size = "1G";
  std::uint32_t ranks = 256;
  std::uint32_t neighbours = 4;  ///< peers to which each rank sends a short message and one of 64
                                 ///< KB
};

/// All endpoints belong to this process; the memory that they take does not depend on that. Errors:
/// invalid_argument, no_space (the pool is too small).
Result<Report> measure_footprint(const FootprintOptions& options);

}  // namespace penstock::bench
