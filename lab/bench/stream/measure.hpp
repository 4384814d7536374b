// STREAM's loop: runs each kernel `ntimes` times, takes the best from the second run on, and checks
// what the arrays then hold.
#pragma once

#include <vector>

#include "bench/stream/target.hpp"

namespace penstock::bench::stream {

struct Run {
  std::vector<Kernel> kernels = {all_kernels.begin(), all_kernels.end()};
  unsigned ntimes = 10;      ///< 2 to max_runs
  std::vector<int> cpus;     ///< thread i runs on cpus[i]; there are as many threads
  bool first_touch = false;  ///< each thread fills its own part; else one fills all
};

struct Timing {
  Kernel kernel = Kernel::copy;
  double best_s = 0, mean_s = 0, worst_s = 0;  ///< of runs 2 to ntimes
  double best_MBps = 0;                        ///< 10^6 bytes as STREAM counts them
};

struct Measured {
  std::vector<Timing> timings;  ///< in the order of Run::kernels
  Errors errors;
  std::string facts;
};

/// Errors: mismatch if the arrays are wrong afterwards; unavailable if interrupted; those of the
/// target.
Result<Measured> measure(Target& target, const Run& run);

/// While one lives, SIGINT, SIGTERM and SIGHUP only ask measure() to end.
class Interruptible {
 public:
  Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible();
  /// Returns the signal that arrived; 0: none so far.
  static int asked();
};

}  // namespace penstock::bench::stream
