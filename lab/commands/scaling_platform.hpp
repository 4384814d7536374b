// The clusters that `penstock model scaling` simulates: parameter sets with their sources, as
// platform files of SimGrid 3.32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::tools {

/// A message between two hosts takes latency + bytes / rate; in measured sets that holds between
/// two neighbouring measured sizes.
struct ScalingNetwork {
  std::string set, network, source;
  double latency_us = 0, GBps = 0;
  bool is_pool = false;                    ///< messages pass through devices that hosts share
  double local_us = 0.5, local_GBps = 10;  ///< within a host; with core_copies: a rank to itself
  bool default_factors = false;            ///< SMPI's own, from a cluster of 2010
  /// Each rank has a link of its own, because a message is what its core copies. Otherwise hosts
  /// have links, which their ranks share.
  bool core_copies = false;
  struct Point {
    std::uint64_t bytes = 0;
    double micro = 0;
  };
  std::vector<Point> measured;   ///< one way, ascending; empty: use latency and rate only
  std::vector<Point> exchanged;  ///< both ways at once
  std::vector<Point> to_self;    ///< from a rank to itself

  /// The extra work of a core for a message that arrives while its own is leaving: how much longer
  /// two messages that pass each other take than one alone.
  double posting_us(std::uint64_t bytes) const;
  double to_self_us(std::uint64_t bytes) const;
};

/// Hosts, and the devices of the pool that all messages share; 0: as many as needed.
struct ScalingHosts {
  std::uint32_t nodes = 0, per_node = 0, devices = 0;
  double gflops = 1;  ///< of a rank
};

/// The part that a simulation leaves out, to show its cost.
enum class ScalingVariant : std::uint8_t {
  whole,
  no_latency,
  alone,       ///< as before, and transfers do not slow each other
  no_network,  ///< messages take no time
};

/// Each message writes and reads a device.
inline constexpr double device_GBps = 20;

/// Sets that need no measurement: table1, section4.2, table1-defaults, real-cxl-model.
std::vector<ScalingNetwork> scaling_networks();
/// From results.json of `penstock bench run pt2pt`: Penstock's and TCP's messages between 2 ranks.
/// A rank's core copies, so its sends and receives take their time one after the other, as far as
/// was measured, and ranks of a host share nothing. Errors: not_found, wrong_format, which name
/// what the file lacks.
Result<std::vector<ScalingNetwork>> measured_networks(const std::string& results);

std::string platform_xml(const ScalingNetwork& network, const ScalingHosts& hosts,
                         ScalingVariant variant);

}  // namespace penstock::tools
