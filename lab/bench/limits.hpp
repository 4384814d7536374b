// The limits of this machine without any protocol, with which all other figures are compared.
#pragma once

#include "bench/options.hpp"
#include "bench/report.hpp"
#include "coherence/coherence.hpp"

namespace penstock::bench {

/// Measures hand-overs between two processes and copies by one, in a pool of this mode. Errors:
/// those of the pool, or fewer than two CPUs.
Result<Report> measure_limits(const Options& options, coherence::Mode mode);

}  // namespace penstock::bench
