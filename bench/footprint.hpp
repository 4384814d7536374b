// How much of a pool a job takes: measured by endpoints that really talk.
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
  std::uint32_t neighbours = 4;  ///< that each rank sends to: a short message and one of 64 KB
};

/// All endpoints are of this process; what they take of the pool does not depend on that. Errors:
/// invalid_argument, no_space (the pool is too small for so many).
Result<Report> measure_footprint(const FootprintOptions& options);

}  // namespace penstock::bench
