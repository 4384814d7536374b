// Whether sets of parameters that were measured give back what they were measured from.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/supervisor.hpp"
#include "scaling_platform.hpp"

namespace penstock::tools {

struct Calibration {
  const ScalingNetwork* network = nullptr;
  /// Shares by which the simulated time of a message one way, and of two that pass each other,
  /// differ from the measured ones at most.
  double worst = 0, worst_exchange = 0;
  std::uint64_t at = 0, exchange_at = 0;  ///< bytes
};

/// Errors: mismatch, where a message one way differs by more than 5 %.
Result<std::vector<Calibration>> check_calibration(const std::vector<ScalingNetwork>& networks,
                                                   const bench::HeldSignals& signals);

}  // namespace penstock::tools
