// The paper's classes of tests, as far as this machine has what they need: papers/3, section 3.3.
//
//   1a  one socket, its own persistent memory            libpmemobj, close
//   1b  one socket, persistent memory elsewhere          libpmemobj, close
//   1c  all sockets, each persistent memory              libpmemobj, close and spread
//   2a  one socket, the memory of another NUMA node      libnuma, close
//   2b  all sockets, the memory of each NUMA node        libnuma, close
//
// and two of ours that the others are compared with: "local", one socket and its own memory, and
// "pool".
#pragma once

#include <array>
#include <string>
#include <vector>

#include "bench/stream/target.hpp"
#include "bench/stream/topology.hpp"

namespace penstock::bench::stream {

inline constexpr std::array<const char*, 7> class_names = {"local", "1a", "1b",  "1c",
                                                           "2a",    "2b", "pool"};

/// Threads on these CPUs, arrays on that target: one line of a figure.
struct Series {
  std::string group;  ///< "1a" to "2b", "local", "pool", "chosen"
  std::string name;   ///< "S0 -> numa:1 (CXL (dax0.0 in system-ram)), plain"
  std::vector<int> cpus;
  Affinity affinity = Affinity::close;
  TargetSpec target;
  int node = -1;     ///< NUMA node of the memory, -1 where it is not known
  bool far = false;  ///< CXL memory, or another node's without CPUs
};

/// What cannot be measured here, and why.
struct Absent {
  std::string what, why;
};

struct Plan {
  std::vector<Series> series;
  std::vector<Absent> absent;
};

/// What is there of each class. Whether libraries are installed shows when a series is opened.
/// Only CPUs of `allowed` are used.
Plan classes_of(const Topology& topology, const std::vector<int>& allowed,
                const TargetOptions& options);
/// Leaves out what is of other classes; all stay where none is named.
void keep_classes(Plan& plan, const std::vector<std::string>& classes);

/// Series of targets that were asked for, with these CPUs, in each affinity. Errors: of
/// parse_targets.
Result<Plan> chosen_series(const std::vector<std::string>& targets, const std::vector<int>& cpus,
                           const std::vector<Affinity>& affinities, const TargetOptions& options);

}  // namespace penstock::bench::stream
