// The speeds of a pool, its hosts and the networks beside it, as numbers with their sources: named
// sets, in which every value can be changed. Units: GB = 10^9 bytes, seconds as ns or µs by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace penstock::model {

/// A rate of 0 means no limit, a cost of 0 no cost.
struct Platform {
  // the pool
  double device_GBps = 0;  ///< a device: both directions together, or each with duplex
  double duplex = 0;       ///< 1: a device reads and writes at once, each at its full rate
  double pool_GBps = 0;    ///< the switch, or what all devices share: both directions together
  double turns = 0;        ///< 1: a device serves one transfer at a time
  // a host and its ranks
  double link_GBps = 0;    ///< a host to the pool, each direction
  double write_GBps = 0;   ///< a rank: a core that stores, a copy engine
  double read_GBps = 0;    ///< a rank: a core that loads, a copy engine
  double lanes = 1;        ///< 2: a rank publishes and reads at the same time, as by two streams
  double memory_GBps = 0;  ///< a host's own memory: moves, and data passed on within a node
  double cached = 0;       ///< 1: ranks read from their host's caches what another rank of the host
                           ///< published
  double reduce_GBps = 0;  ///< a rank: operand bytes that it reduces, besides fetching them
  // a switch that computes
  double switches = 0;      ///< 0: none; 1: one; more: a spine, and leaves for the rest
  double accel_GBps = 0;    ///< a switch: bytes gathered and returned, together
  double combine_GBps = 0;  ///< a switch: operand bytes that it reduces
  double inside = 0;        ///< 1: the slots lie in the switch's own memory, else on the devices
  double exact = 0;         ///< 1: any order gives the same bits, and leaves reduce for the spine
  // an operation
  double load_us = 0;    ///< a look at a word, or the first bytes of a chunk: a device access
  double store_us = 0;   ///< until a store is seen
  double fence_us = 0;   ///< between a chunk and its doorbell
  double launch_us = 0;  ///< a copy or a kernel
};

/// A network beside the pool: rings and pairs of messages.
struct Network {
  std::string_view name;
  double line_GBps = 0;   ///< line rate, each direction of a host
  double fraction = 1;    ///< part of the line rate that is reached
  double latency_us = 0;  ///< a message
  double local_GBps = 0;  ///< between ranks of a node
  std::string_view source;
  double rate() const { return line_GBps * fraction * 1e9; }
};

struct PlatformSet {
  struct Value {
    std::string_view name;  ///< as in fields()
    double value = 0;
    std::string_view source;
  };
  std::string_view name, meaning;
  std::vector<Value> values;
  std::uint32_t devices = 1;
  std::uint64_t slot_bytes = 256 << 10;
  std::uint32_t slots = 4;
  Platform platform() const;
};

/// Name, unit, meaning and place of each number.
struct PlatformField {
  std::string_view name, unit, meaning;
  double Platform::*at;
};
std::span<const PlatformField> fields();

/// The first one is the default.
const std::vector<PlatformSet>& platform_sets();
const std::vector<Network>& networks();
/// Errors: invalid_argument, which lists the known names.
Result<const PlatformSet*> find_platform(std::string_view name);
/// Changes `set` by a text such as "device=20,duplex=1". Errors: invalid_argument, which names the
/// wrong part and the permitted ones.
Result<void> change(PlatformSet& set, std::string_view text);

}  // namespace penstock::model
