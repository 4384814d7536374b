// The study of scaling: a program's messages on more and more hosts, over each network, and where
// its time goes. Source: cMPI, section 4.4, Figure 10; docs/scale.md.
#pragma once

#include <functional>

#include "scaling_platform.hpp"

namespace penstock::tools {

struct ScalingOptions {
  std::string size = "D";            ///< class of CG
  std::string replayed;              ///< traces of another program, in place of CG's
  std::vector<std::uint32_t> nodes;  ///< of a replayed program one number
  std::uint32_t per_node = 8;
  std::vector<std::uint32_t> devices;  ///< 0: as many as it takes
  std::vector<ScalingNetwork> networks;
};

/// Seconds of an outer iteration of CG, or of the whole of a replayed program.
struct ScalingCase {
  const ScalingNetwork* network = nullptr;
  std::uint32_t nodes = 0, ranks = 0;
  std::uint32_t devices = 0;
  double total = 0, compute = 0, latency = 0, bandwidth = 0, contention = 0, wait = 0;
  double communication() const { return total - compute; }
};

/// What a calibrated set makes of the messages that it was made from.
struct Calibration {
  const ScalingNetwork* network = nullptr;
  double worst = 0;  ///< share by which the simulated latency differs from the measured one
  std::uint64_t at = 0;
};
/// Errors: mismatch, where one differs by more than 5 %.
Result<std::vector<Calibration>> check_calibration(const std::vector<ScalingNetwork>& networks);

/// `progress`: what is simulated, done, of how many. Errors: those of cg_trace() and replay().
Result<std::vector<ScalingCase>> study_scaling(
    const ScalingOptions& options,
    const std::function<void(std::size_t, std::size_t)>& progress = {});

/// What the cases say of CXL against the networks, in sentences.
std::vector<std::string> findings_of(const std::vector<ScalingCase>& cases);

}  // namespace penstock::tools
