#include "bench/stream/topology.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <string_view>

#include "base/cpus.hpp"
#include "base/env.hpp"
#include "base/file.hpp"
#include "base/format.hpp"

namespace penstock::bench::stream {

namespace {

namespace fs = std::filesystem;

/// The target of a link, with all links resolved; "" if it does not exist.
std::string target_of(const std::string& link) {
  std::error_code failed;
  const fs::path path = fs::canonical(link, failed);
  return failed ? "" : path.string();
}

/// sysfs writes -1 for "none", which read_number() does not accept.
int node_in(const std::string& path) {
  const auto number = base::read_number(path);
  return number ? static_cast<int>(*number) : -1;
}

/// "Node 0 MemFree:  1234 kB", or the same in /proc/meminfo; in bytes, 0 if it is absent.
std::uint64_t memory_line(std::string_view text, std::string_view key) {
  const auto at = text.find(std::string(key) + ":");
  if (at == text.npos) return 0;
  const auto digits = text.find_first_of("0123456789", at + key.size());
  std::uint64_t kilobytes = 0;
  if (digits != text.npos)
    std::from_chars(text.data() + digits, text.data() + text.size(), kilobytes);
  return kilobytes << 10;
}

/// Free memory, and memory that the page cache can give back; not that of shared memory.
std::uint64_t available(std::string_view text) {
  const std::uint64_t files =
      memory_line(text, "Active(file)") + memory_line(text, "Inactive(file)");
  return memory_line(text, "MemFree") + files;
}

/// The first CPU of each core, then the second ones.
std::vector<int> cores_first(const Roots& roots, std::vector<int> cpus) {
  const auto rank = [&](int cpu) {
    const auto siblings = base::parse_cpu_list(base::read_value(
        fmt::format("{}/devices/system/cpu/cpu{}/topology/thread_siblings_list", roots.sys, cpu)));
    if (!siblings) return std::ptrdiff_t{0};
    return std::find(siblings->begin(), siblings->end(), cpu) - siblings->begin();
  };
  std::vector<std::pair<std::ptrdiff_t, int>> ranked;
  for (const int cpu : cpus) ranked.emplace_back(rank(cpu), cpu);
  std::sort(ranked.begin(), ranked.end());
  for (std::size_t i = 0; i < cpus.size(); ++i) cpus[i] = ranked[i].second;
  return cpus;
}

std::vector<int> numbers_in(std::string_view text) {
  std::vector<int> numbers;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    int value = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), value);
    if (error == std::errc()) numbers.push_back(value);
    at = error == std::errc() ? end : at + 1;
  }
  return numbers;
}

std::vector<Node> read_nodes(const Roots& roots) {
  std::vector<Node> nodes;
  const std::string folder = roots.sys + "/devices/system/node";
  const auto online = base::parse_cpu_list(base::read_value(folder + "/online"));
  for (const int number : online.value_or(std::vector<int>{})) {
    const std::string own = fmt::format("{}/node{}", folder, number);
    const std::string memory = base::read_file(own + "/meminfo");
    Node node{.number = number};
    const auto cpus = base::parse_cpu_list(base::read_value(own + "/cpulist"));
    if (cpus) node.cpus = cores_first(roots, *cpus);
    node.bytes = memory_line(memory, "MemTotal");
    node.free = available(memory);
    node.distances = numbers_in(base::read_value(own + "/distance"));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

/// For a kernel without NUMA.
std::vector<Node> one_node(const Roots& roots) {
  const auto cpus =
      base::parse_cpu_list(base::read_value(roots.sys + "/devices/system/cpu/online"));
  if (!cpus) return {};
  const std::string memory = base::read_file(roots.proc + "/meminfo");
  return {Node{.number = 0,
               .cpus = cores_first(roots, *cpus),
               .bytes = memory_line(memory, "MemTotal"),
               .free = available(memory),
               .distances = {10},
               .memory = ""}};
}

std::vector<DaxDevice> read_devices(const Roots& roots) {
  std::vector<DaxDevice> devices;
  const std::string folder = roots.sys + "/bus/dax/devices";
  for (const std::string& name : base::folder_entries(folder)) {
    const std::string driver = target_of(folder + "/" + name + "/driver");
    devices.push_back({.name = name,
                       .driver = driver.substr(driver.rfind('/') + 1),
                       .node = node_in(folder + "/" + name + "/target_node"),
                       .cxl = target_of(folder + "/" + name).find("/decoder") != driver.npos});
  }
  return devices;
}

/// /proc/mounts: DEVICE FOLDER TYPE OPTIONS 0 0, with blanks in FOLDER as \040.
std::vector<DaxMount> read_mounts(const Roots& roots) {
  std::vector<DaxMount> mounts;
  std::string text = base::read_file(roots.proc + "/mounts");
  std::string_view left = text;
  while (!left.empty()) {
    std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    std::string_view words[4];
    for (auto& word : words) {
      word = line.substr(0, line.find(' '));
      line.remove_prefix(std::min(line.size(), word.size() + 1));
    }
    const std::string options = fmt::format(",{},", words[3]);
    const bool dax =
        options.find(",dax,") != options.npos || options.find(",dax=always,") != options.npos;
    if (!dax || !words[0].starts_with("/dev/")) continue;
    DaxMount mount{.folder = std::string(words[1]), .device = std::string(words[0].substr(5))};
    const std::string place = target_of(roots.sys + "/class/block/" + mount.device);
    for (fs::path up = place; mount.node < 0 && up.has_relative_path(); up = up.parent_path()) {
      mount.node = node_in((up / "target_node").string());
      if (mount.node < 0) mount.node = node_in((up / "numa_node").string());
      if (up.filename().string().starts_with("region")) break;
    }
    mount.cxl = place.find("/nvdimm-bridge") != place.npos;
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::vector<Cache> read_last_level(const Roots& roots, const std::vector<Node>& nodes) {
  std::vector<Cache> caches;
  for (const Node& node : nodes)
    for (const int cpu : node.cpus) {
      const std::string folder = fmt::format("{}/devices/system/cpu/cpu{}/cache", roots.sys, cpu);
      std::uint64_t highest = 0;
      Cache last;
      for (const std::string& index : base::folder_entries(folder)) {
        const std::string own = folder + "/" + index;
        const auto level = base::read_number(own + "/level");
        const auto bytes = base::parse_bytes(base::read_value(own + "/size"));
        const auto cpus = base::parse_cpu_list(base::read_value(own + "/shared_cpu_list"));
        if (!level || !bytes || *level <= highest) continue;
        highest = *level;
        last = {cpus.value_or(std::vector<int>{cpu}), *bytes};
      }
      const auto same = [&](const Cache& known) { return known.cpus == last.cpus; };
      if (highest != 0 && std::none_of(caches.begin(), caches.end(), same)) caches.push_back(last);
    }
  return caches;
}

std::string memory_of(const Node& node, const std::vector<DaxDevice>& devices) {
  for (const DaxDevice& device : devices)
    if (device.driver == "kmem" && device.node == node.number)
      return fmt::format("{} ({} in system-ram)", device.cxl ? "CXL" : "device", device.name);
  return node.cpus.empty() ? "no CPUs: CXL or HBM" : "DRAM";
}

}  // namespace

std::vector<const Node*> Topology::sockets() const {
  std::vector<const Node*> found;
  for (const Node& each : nodes)
    if (!each.cpus.empty()) found.push_back(&each);
  return found;
}

std::vector<const Node*> Topology::memories() const {
  std::vector<const Node*> found;
  for (const Node& each : nodes)
    if (each.bytes != 0) found.push_back(&each);
  return found;
}

const Node* Topology::node(int number) const {
  for (const Node& each : nodes)
    if (each.number == number) return &each;
  return nullptr;
}

std::optional<std::uint64_t> Topology::last_level_bytes(const std::vector<int>& cpus) const {
  std::uint64_t bytes = 0;
  for (const Cache& cache : last_level) {
    const auto shares = [&](int cpu) {
      return std::find(cache.cpus.begin(), cache.cpus.end(), cpu) != cache.cpus.end();
    };
    if (std::any_of(cpus.begin(), cpus.end(), shares)) bytes += cache.bytes;
  }
  return bytes == 0 ? std::nullopt : std::optional(bytes);
}

Result<Topology> read_topology(const Roots& roots) {
  Topology topology;
  topology.nodes = read_nodes(roots);
  if (topology.nodes.empty()) topology.nodes = one_node(roots);
  if (topology.sockets().empty())
    return fail(ErrorCode::unavailable,
                "{}/devices/system names neither NUMA nodes nor CPUs: mount sysfs "
                "(mount -t sysfs sysfs /sys)",
                roots.sys);
  topology.devices = read_devices(roots);
  for (Node& node : topology.nodes) node.memory = memory_of(node, topology.devices);
  topology.mounts = read_mounts(roots);
  topology.last_level = read_last_level(roots, topology.nodes);
  return topology;
}

const char* affinity_name(Affinity affinity) {
  return affinity == Affinity::close ? "close" : "spread";
}

Result<Affinity> parse_affinity(std::string_view text) {
  if (text == "close") return Affinity::close;
  if (text == "spread") return Affinity::spread;
  return fail(ErrorCode::invalid_argument,
              "'{}' is no affinity; they are close and spread: --affinity close", text);
}

std::vector<int> order_of(const Topology& topology, const std::vector<int>& cpus,
                          Affinity affinity) {
  std::vector<std::vector<int>> by_node;
  const std::set<int> wanted(cpus.begin(), cpus.end());
  for (const Node& node : topology.nodes) {
    auto& own = by_node.emplace_back();
    for (const int cpu : node.cpus)
      if (wanted.contains(cpu)) own.push_back(cpu);
  }
  std::vector<int> order;
  if (affinity == Affinity::close)
    for (const auto& own : by_node) order.insert(order.end(), own.begin(), own.end());
  else
    for (std::size_t i = 0; order.size() < cpus.size(); ++i) {
      const std::size_t before = order.size();
      for (const auto& own : by_node)
        if (i < own.size()) order.push_back(own[i]);
      if (order.size() == before) break;  // the rest belongs to no node
    }
  return order;
}

}  // namespace penstock::bench::stream
