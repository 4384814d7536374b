// The paper's classes of tests, as far as this machine has the memory for them: papers/3, section
// 3.3.
//
//   1a  one socket, its own persistent memory            libpmemobj, close
//   1b  one socket, persistent memory elsewhere          libpmemobj, close
//   1c  all sockets, each persistent memory              libpmemobj, close and spread
//   2a  one socket, the memory of another NUMA node      libnuma, close
//   2b  all sockets, the memory of each NUMA node        libnuma, close
//
// and two further ones with which the others are compared: "local", one socket and its own memory,
// and "pool".
#pragma once

#include <array>
#include <string>
#include <vector>

#include "bench/stream/target.hpp"
#include "bench/stream/topology.hpp"

namespace penstock::bench::stream {

inline constexpr std::array<const char*, 7> class_names = {"local", "1a", "1b",  "1c",
                                                           "2a",    "2b", "pool"};

/// Threads on these CPUs, arrays on that target: one line in a figure.
struct Series {
  std::string group;  ///< "1a" to "2b", "local", "pool", "chosen"
  std::string name;   ///< "S0 -> numa:1 (CXL (dax0.0 in system-ram)), plain"
  std::vector<int> cpus;
  Affinity affinity = Affinity::close;
  TargetSpec target;
  int node = -1;     ///< NUMA node of the memory; -1: unknown
  bool far = false;  ///< CXL memory, or memory of another node without CPUs
};

/// A measurement that this machine does not allow, and why.
struct Absent {
  std::string what, why;
};

struct Plan {
  std::vector<Series> series;
  std::vector<Absent> absent;
};

/// Returns the possible series of each class. Only opening a series shows whether its libraries are
/// installed. Uses only CPUs of `allowed`.
Plan classes_of(const Topology& topology, const std::vector<int>& allowed,
                const TargetOptions& options);
/// Drops series of other classes; keeps all if `classes` is empty.
void keep_classes(Plan& plan, const std::vector<std::string>& classes);

/// Series for the targets asked for, with these CPUs, in each affinity. Errors: those of
/// parse_targets.
Result<Plan> chosen_series(const std::vector<std::string>& targets, const std::vector<int>& cpus,
                           const std::vector<Affinity>& affinities, const TargetOptions& options);

}  // namespace penstock::bench::stream
