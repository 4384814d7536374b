// The clusters that `penstock model scaling` simulates: parameter sets with their sources, as
// platform files of SimGrid 3.32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

/// A message between two hosts takes latency + bytes / rate; in measured sets so between two sizes
/// that were measured.
struct ScalingNetwork {
  std::string set, network, source;
  double latency_us = 0, GBps = 0;
  bool is_pool = false;                    ///< messages go through devices that hosts share
  double local_us = 0.5, local_GBps = 10;  ///< within a host; of core_copies: to itself
  bool default_factors = false;            ///< SMPI's own, of a cluster of 2010
  /// A rank shares its link with no other rank, for a message is what its core copies. Else hosts
  /// have links, which their ranks share.
  bool core_copies = false;
  struct Point {
    std::uint64_t bytes = 0;
    double micro = 0;
  };
  std::vector<Point> measured;   ///< one way, ascending; empty: by latency and rate alone
  std::vector<Point> exchanged;  ///< there and back at once
  std::vector<Point> to_self;    ///< of a rank to itself

  /// What a core does besides for a message that comes while its own goes: how much longer two that
  /// pass each other take than one alone.
  double posting_us(std::uint64_t bytes) const;
  double to_self_us(std::uint64_t bytes) const;
};

/// Hosts, and the devices of the pool that all messages share; 0: as many as it takes.
struct ScalingHosts {
  std::uint32_t nodes = 0, per_node = 0, devices = 0;
  double gflops = 1;  ///< of a rank
};

/// What is left out of a simulation, to see what it costs.
enum class ScalingVariant : std::uint8_t {
  whole,
  no_latency,
  alone,       ///< nor does a transfer slow another one
  no_network,  ///< messages take no time
};

/// A device is written and read by each message.
inline constexpr double device_GBps = 20;

/// Sets that need no measurement: table1, section4.2, table1-defaults, real-cxl-model.
std::vector<ScalingNetwork> scaling_networks();
/// From results.json of `penstock bench run pt2pt`: Penstock's messages and TCP's of 2 ranks. A
/// rank's core copies, so that what it sends and what it receives take their time one after the
/// other as far as was measured, and ranks of a host share nothing. Errors: not_found,
/// wrong_format, which name what the file lacks.
Result<std::vector<ScalingNetwork>> measured_networks(const std::string& results);

std::string platform_xml(const ScalingNetwork& network, const ScalingHosts& hosts,
                         ScalingVariant variant);

}  // namespace penstock::tools
