// The memory of this machine, where it lies, and which CPUs are near it, according to sysfs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace penstock::bench::stream {

/// The folders of the kernel's files; tests replace them.
struct Roots {
  std::string sys = "/sys", proc = "/proc";
};

/// A NUMA node.
struct Node {
  int number = 0;
  std::vector<int> cpus;       ///< online; those of one core are not adjacent
  std::uint64_t bytes = 0;     ///< 0: no memory
  std::uint64_t free = 0;      ///< what a process can still have, counting reclaimable caches
  std::vector<int> distances;  ///< to each node, in the order of Topology::nodes
  std::string memory;          ///< "DRAM", "CXL (dax0.0)", "no CPUs: CXL or HBM"
};

/// A file system on persistent memory, mounted with the option dax.
struct DaxMount {
  std::string folder;  ///< "/mnt/pmem0"
  std::string device;  ///< "pmem0"
  int node = -1;       ///< -1: the kernel does not say
  bool cxl = false;    ///< its region lies on CXL memory
};

/// Memory without a file system: /dev/dax0.0.
struct DaxDevice {
  std::string name;
  std::string driver;  ///< "kmem": it is memory of a NUMA node; "device_dax"
  int node = -1;
  bool cxl = false;  ///< belongs to a CXL region
};

struct Cache {
  std::vector<int> cpus;  ///< CPUs that share it
  std::uint64_t bytes = 0;
};

struct Topology {
  std::vector<Node> nodes;  ///< by number
  std::vector<DaxMount> mounts;
  std::vector<DaxDevice> devices;
  std::vector<Cache> last_level;

  /// Nodes with CPUs, and nodes with memory.
  std::vector<const Node*> sockets() const;
  std::vector<const Node*> memories() const;
  const Node* node(int number) const;
  /// Bytes of all last-level caches of these CPUs; nullopt if sysfs does not say.
  std::optional<std::uint64_t> last_level_bytes(const std::vector<int>& cpus) const;
};

/// A kernel without NUMA gives one node with all CPUs. Errors: unavailable if sysfs does not even
/// list CPUs.
Result<Topology> read_topology(const Roots& roots = {});

enum class Affinity : std::uint8_t {
  close,   ///< fill one node's CPUs, then those of the next
  spread,  ///< one of each node in turn
};
const char* affinity_name(Affinity affinity);
Result<Affinity> parse_affinity(std::string_view text);
/// Returns these CPUs in the order in which threads take them.
std::vector<int> order_of(const Topology& topology, const std::vector<int>& cpus,
                          Affinity affinity);

}  // namespace penstock::bench::stream
