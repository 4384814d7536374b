// The best that this machine can do without any protocol: the figures that all others are held
// against.
#pragma once

#include "bench/options.hpp"
#include "bench/report.hpp"
#include "coherence/coherence.hpp"

namespace penstock::bench {

/// Hand-overs between two processes and copies by one, in a pool of this mode. Errors: as of the
/// pool, or fewer than two CPUs.
Result<Report> measure_limits(const Options& options, coherence::Mode mode);

}  // namespace penstock::bench
