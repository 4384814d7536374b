// The study of scaling: a program's messages on more and more hosts, over each network, and where
// its time goes. Source: cMPI, section 4.4, Figure 10; docs/scale.md.
#pragma once

#include <functional>

#include "bench/supervisor.hpp"
#include "scaling_platform.hpp"
#include "scaling_programs.hpp"

namespace penstock::tools {

struct ScalingOptions {
  std::vector<ScalingProgram> programs;
  std::vector<std::uint32_t> nodes;
  std::uint32_t per_node = 8;          ///< traced programs have their own number
  double gflops = 1;                   ///< of a rank
  std::vector<std::uint32_t> devices;  ///< 0: as many as needed
  std::vector<ScalingNetwork> networks;
};

/// Seconds for one unit of a program.
struct ScalingCase {
  const ScalingProgram* program = nullptr;
  const ScalingNetwork* network = nullptr;
  std::uint32_t nodes = 0, ranks = 0;
  std::uint32_t devices = 0;
  double total = 0, compute = 0, latency = 0, bandwidth = 0, contention = 0, wait = 0;
  double communication() const { return total - compute; }
};

/// Called with the number of simulations that are done, and of all.
using ScalingProgress = std::function<void(std::size_t, std::size_t)>;

/// Errors: those of the programs' traces() and of replay_all().
Result<std::vector<ScalingCase>> study_scaling(const ScalingOptions& options,
                                               const bench::HeldSignals& signals,
                                               const ScalingProgress& progress = {});

/// Sentences that compare CXL with the networks.
std::vector<std::string> findings_of(const std::vector<ScalingCase>& cases);

}  // namespace penstock::tools
