#include "base/numa.hpp"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "base/checked.hpp"
#include "base/cpus.hpp"
#include "base/file.hpp"
#include "base/found.hpp"

namespace penstock::base {
namespace {

NumaLibrary load() {
  NumaLibrary library;
  void* const handle = ::dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return library;
  const auto available = reinterpret_cast<int (*)()>(::dlsym(handle, "numa_available"));
  if (available == nullptr || available() < 0) return library;
  library.available = available;
  library.tonode_memory =
      reinterpret_cast<void (*)(void*, std::size_t, int)>(::dlsym(handle, "numa_tonode_memory"));
  return library;
}

}  // namespace

std::vector<NumaNode> numa_nodes(const std::string& sys) {
  std::vector<NumaNode> nodes;
  const std::string folder = sys + "/devices/system/node";
  constexpr std::string_view prefix = "node";
  for (const std::string& name : folder_entries(folder)) {
    int number = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with(prefix)) continue;
    const auto parsed = std::from_chars(name.data() + prefix.size(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end) continue;
    // a node of CXL memory has none
    const auto cpus = parse_cpu_list(read_value(folder + "/" + name + "/cpulist"));
    if (cpus && !cpus->empty()) nodes.push_back({number, *cpus});
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const NumaNode& one, const NumaNode& other) { return one.number < other.number; });
  return nodes;
}

const std::vector<NumaNode>& host_numa_nodes() {
  static const std::vector<NumaNode> nodes = numa_nodes();
  return nodes;
}

std::optional<int> node_of(const std::vector<NumaNode>& nodes, const std::vector<int>& cpus) {
  if (cpus.empty()) return std::nullopt;
  for (const NumaNode& node : nodes) {
    const auto has = [&node](int cpu) {
      return std::find(node.cpus.begin(), node.cpus.end(), cpu) != node.cpus.end();
    };
    if (std::all_of(cpus.begin(), cpus.end(), has)) return node.number;
  }
  return std::nullopt;
}

std::optional<int> read_numa_node(const std::string& file) {
  const auto number = read_number(file);
  if (!number || *number > 0xffff) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<int> numa_node_of_pci(std::string address, const std::string& sys) {
  if (address.find('/') != std::string::npos) return std::nullopt;
  for (char& each : address)
    each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return read_numa_node(sys + "/bus/pci/devices/" + address + "/numa_node");
}

std::vector<int> cpus_near(const std::vector<NumaNode>& nodes, const std::vector<int>& usable,
                           std::optional<int> node) {
  if (nodes.size() < 2 || !node) return {};
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const NumaNode& each) { return each.number == *node; });
  if (found == nodes.end()) return {};
  std::vector<int> near;
  for (const int cpu : usable)
    if (std::find(found->cpus.begin(), found->cpus.end(), cpu) != found->cpus.end())
      near.push_back(cpu);
  if (near.size() == usable.size()) near.clear();
  return near;
}

std::vector<int> own_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<unsigned>(cpu), &mask)) cpus.push_back(cpu);
  return cpus;
}

const NumaLibrary* numa_library() {
  static constinit Found<NumaLibrary> found;
  const NumaLibrary& loaded = found.get(load);
  return loaded.tonode_memory != nullptr ? &loaded : nullptr;
}

bool keep_on_node(void* at, std::size_t bytes, std::optional<int> node, std::size_t nodes,
                  const NumaLibrary* library) {
  if (nodes < 2 || !node || library == nullptr) return false;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const std::uint64_t first = align_up(begin, page), end = (begin + bytes) / page * page;
  if (first >= end) return false;
  library->tonode_memory(reinterpret_cast<void*>(first), end - first, *node);
  return true;
}

bool keep_on_node(void* at, std::size_t bytes, std::optional<int> node) {
  const std::size_t nodes = host_numa_nodes().size();
  if (nodes < 2 || !node) return false;
  return keep_on_node(at, bytes, node, nodes, numa_library());
}

}  // namespace penstock::base
