// Checks whether simulations with measured parameters reproduce the measurements.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/supervisor.hpp"
#include "scaling_platform.hpp"

namespace penstock::tools {

struct Calibration {
  const ScalingNetwork* network = nullptr;
  /// Greatest relative differences between simulated and measured times: of a message one way, and
  /// of two messages that pass each other.
  double worst = 0, worst_exchange = 0;
  std::uint64_t at = 0, exchange_at = 0;  ///< bytes
};

/// Errors: mismatch if a message one way differs by more than 5 %.
Result<std::vector<Calibration>> check_calibration(const std::vector<ScalingNetwork>& networks,
                                                   const bench::HeldSignals& signals);

}  // namespace penstock::tools
