// NUMA nodes of this host: which CPUs each has, which one a device is next to, and how memory gets
// to one. Where sysfs or libnuma tell nothing, nothing is done: memory then lies on the node of the
// thread that touches it first. Why so: docs/decisions/0034-numa.md.
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

/// Those with CPUs, by number; empty where the kernel tells nothing. `sys`: replaced in tests.
std::vector<NumaNode> numa_nodes(const std::string& sys = "/sys");
/// As above, read once.
const std::vector<NumaNode>& host_numa_nodes();

/// The node that has all these CPUs; nullopt: they are of several, or of none that is known.
std::optional<int> node_of(const std::vector<NumaNode>& nodes, const std::vector<int>& cpus);
/// What a device's file "numa_node" says; nullopt: nothing, or -1.
std::optional<int> read_numa_node(const std::string& file);
/// Of a PCI device as drivers name it, "0000:3B:00.0".
std::optional<int> numa_node_of_pci(std::string address, const std::string& sys = "/sys");

/// The CPUs of `usable` that are next to a device or thread on `node`. Empty: leave it as it is,
/// for all are, or none is, or there is one node.
std::vector<int> cpus_near(const std::vector<NumaNode>& nodes, const std::vector<int>& usable,
                           std::optional<int> node);
/// The CPUs that the calling thread may use; empty: the kernel does not tell.
std::vector<int> own_cpus();

/// The functions of libnuma that are used.
struct NumaLibrary {
  int (*available)() = nullptr;
  void (*tonode_memory)(void* at, std::size_t bytes, int node) = nullptr;
};
/// Null: libnuma1 is not installed, or the kernel has no NUMA. Loaded when it is first asked for.
const NumaLibrary* numa_library();

/// The whole pages in [at, at + bytes), which nobody has touched yet, will lie on `node`. False:
/// that was left to the kernel, for there is one node, or none is named, or no library.
bool keep_on_node(void* at, std::size_t bytes, std::optional<int> node);
bool keep_on_node(void* at, std::size_t bytes, std::optional<int> node, std::size_t nodes,
                  const NumaLibrary* library);

}  // namespace penstock::base
