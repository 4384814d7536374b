// NUMA nodes of this host: which CPUs each has, which one a device is near, and how memory is
// placed on one. If sysfs or libnuma say nothing, nothing is done: memory then lies on the node of
// the thread that touches it first. Reasons: docs/decisions/0034-numa.md.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace penstock::base {

struct NumaNode {
  int number = 0;
  std::vector<int> cpus;
};

/// Returns the nodes that have CPUs, by number; empty if the kernel says nothing. `sys`: replaced
/// in tests.
std::vector<NumaNode> numa_nodes(const std::string& sys = "/sys");
/// The same for this host, read once.
const std::vector<NumaNode>& host_numa_nodes();

/// Returns the node that has all these CPUs; nullopt if they belong to several, or to no known one.
std::optional<int> node_of(const std::vector<NumaNode>& nodes, const std::vector<int>& cpus);
/// Reads a device's file "numa_node"; nullopt if there is no number in it, or -1.
std::optional<int> read_numa_node(const std::string& file);
/// The node of a PCI device, named as drivers do: "0000:3B:00.0".
std::optional<int> numa_node_of_pci(std::string address, const std::string& sys = "/sys");

/// Returns the CPUs of `usable` that are near a device or thread on `node`. Empty: keep the mask,
/// because all of them are near, or none is, or there is only one node.
std::vector<int> cpus_near(const std::vector<NumaNode>& nodes, const std::vector<int>& usable,
                           std::optional<int> node);
/// Returns the CPUs that the calling thread may use; empty if the kernel does not say.
std::vector<int> own_cpus();

/// The functions of libnuma that Penstock uses.
struct NumaLibrary {
  int (*available)() = nullptr;
  void (*tonode_memory)(void* at, std::size_t bytes, int node) = nullptr;
};
/// Loads libnuma at the first call. Returns nullptr if libnuma1 is not installed or the kernel has
/// no NUMA.
const NumaLibrary* numa_library();

/// Places the whole pages in [at, at + bytes), which must be untouched so far, on `node`. Returns
/// false if that was left to the kernel, because there is one node, none is named, or there is no
/// library.
bool keep_on_node(void* at, std::size_t bytes, std::optional<int> node);
bool keep_on_node(void* at, std::size_t bytes, std::optional<int> node, std::size_t nodes,
                  const NumaLibrary* library);

}  // namespace penstock::base
