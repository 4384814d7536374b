#include "bench/stream/classes.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace penstock::bench::stream {

namespace {

struct Socket {
  std::string name;  ///< "S0"
  int node = 0;
  std::vector<int> cpus;
};

class Classes {
 public:
  Classes(const Topology& topology, const std::vector<int>& allowed, const TargetOptions& options)
      : topology_(topology), options_(options) {
    for (const Node* node : topology.sockets()) {
      Socket socket{.name = fmt::format("S{}", sockets_.size()), .node = node->number};
      for (const int cpu : node->cpus)
        if (std::find(allowed.begin(), allowed.end(), cpu) != allowed.end())
          socket.cpus.push_back(cpu);
      if (!socket.cpus.empty()) sockets_.push_back(std::move(socket));
    }
    for (const Socket& socket : sockets_)
      all_.insert(all_.end(), socket.cpus.begin(), socket.cpus.end());
  }

  Plan make() {
    if (sockets_.empty()) {
      absent("every class", "none of the CPUs to be used is near memory that sysfs names");
      return std::move(plan_);
    }
    persistent_of_one_socket();
    persistent_of_all();
    nodes_of_one_socket();
    nodes_of_all();
    pools();
    return std::move(plan_);
  }

 private:
  bool several() const { return sockets_.size() > 1; }
  void absent(std::string what, std::string why) {
    plan_.absent.push_back({std::move(what), std::move(why)});
  }
  std::string one_socket() const {
    return fmt::format("the CPUs to be used lie on one NUMA node (of {} with CPUs)",
                       topology_.sockets().size());
  }
  /// Adds a series for each way in which the target is used.
  struct Place {
    std::string memory;  ///< in words; "": none
    int node = -1;
    bool far = false;
  };
  void add(const char* group, const std::string& cores, const std::vector<int>& cpus,
           Affinity affinity, const std::string& target, const Place& place) {
    const auto specs = parse_targets(target, options_);
    if (!specs) return absent(group, specs.error().message);
    for (const TargetSpec& spec : *specs) {
      Series series{.group = group, .cpus = order_of(topology_, cpus, affinity)};
      series.name = fmt::format("{} -> {}{}{}", cores, spec.name(),
                                place.memory.empty() ? "" : fmt::format(" ({})", place.memory),
                                affinity == Affinity::spread ? ", spread" : "");
      series.affinity = affinity;
      series.target = spec;
      series.node = place.node;
      series.far = place.far;
      plan_.series.push_back(std::move(series));
    }
  }
  void add_persistent(const char* group, const std::string& cores, const std::vector<int>& cpus,
                      Affinity affinity, const DaxMount& mount) {
    const std::string where = mount.cxl        ? "CXL"
                              : mount.node < 0 ? "node unknown"
                                               : fmt::format("node {}", mount.node);
    const Place place{fmt::format("{}, {}", mount.device, where), mount.node, mount.cxl};
    for (const char* form : {"pmem:", "pmem+persist:", "pmem+tx:", "pmem+tx-nosnap:"})
      add(group, cores, cpus, affinity, form + mount.folder, place);
  }

  /// CXL memory belongs to no socket, even if a kernel gives it a socket's number.
  bool own(const Socket& socket, const DaxMount& mount) const {
    return !mount.cxl && (mount.node == socket.node || (mount.node < 0 && !several()));
  }
  void persistent_of_one_socket() {
    bool local = false, remote = false;
    for (const Socket& socket : sockets_)
      for (const DaxMount& mount : topology_.mounts) {
        const bool near = own(socket, mount);
        (near ? local : remote) = true;
        add_persistent(near ? "1a" : "1b", socket.name, socket.cpus, Affinity::close, mount);
      }
    const std::string none = no_mount();
    if (!local)
      absent("1a: a socket and its own persistent memory",
             none.empty() ? "no file system mounted with dax lies on a socket's own memory" : none);
    if (!remote)
      absent("1b: a socket and persistent memory elsewhere",
             none.empty() ? "every file system mounted with dax lies on the socket's own memory"
                          : none);
  }
  std::string no_mount() const {
    if (!topology_.mounts.empty()) return "";
    return "no file system is mounted with dax (ndctl create-namespace -m fsdax; mkfs.ext4 "
           "/dev/pmem0; mount -o dax /dev/pmem0 FOLDER); --target pmem:FOLDER takes any other";
  }
  void persistent_of_all() {
    const std::string none = no_mount();
    if (!several() || !none.empty())
      return absent("1c: all sockets and each persistent memory",
                    none.empty() ? one_socket() : none);
    for (const DaxMount& mount : topology_.mounts)
      for (const Affinity affinity : {Affinity::close, Affinity::spread})
        add_persistent("1c", "all", all_, affinity, mount);
  }

  void add_node(const char* group, const std::string& cores, const std::vector<int>& cpus,
                const Node& node) {
    add(group, cores, cpus, Affinity::close, fmt::format("numa:{}", node.number),
        {node.memory, node.number, node.cpus.empty()});
  }
  void nodes_of_one_socket() {
    bool remote = false;
    for (const Socket& socket : sockets_)
      for (const Node* node : topology_.memories()) {
        const bool near = node->number == socket.node;
        remote = remote || !near;
        add_node(near ? "local" : "2a", socket.name, socket.cpus, *node);
      }
    if (!remote)
      absent("2a: a socket and the memory of another NUMA node",
             "one NUMA node has all memory and all CPUs to be used");
    const auto without_cpus = [](const Node* node) { return node->cpus.empty(); };
    const auto memories = topology_.memories();
    if (std::none_of(memories.begin(), memories.end(), without_cpus))
      absent("2a, 2b on CXL memory", no_far_node());
  }
  /// Names devices that could become such a node.
  std::string no_far_node() const {
    for (const DaxDevice& device : topology_.devices)
      if (device.driver != "kmem")
        return fmt::format(
            "no NUMA node is without CPUs; {} could be one: daxctl "
            "reconfigure-device --mode=system-ram {} (never memory that hosts share)",
            device.name, device.name);
    return "no NUMA node is without CPUs, and there is no DAX device";
  }
  void nodes_of_all() {
    if (!several()) return absent("2b: all sockets and the memory of each node", one_socket());
    for (const Node* node : topology_.memories()) add_node("2b", "all", all_, *node);
  }
  /// A temporary pool in /dev/shm, on the first socket's memory.
  void pools() {
    for (const char* target : {"pool", "pool+observe", "pool+tx"})
      add("pool", sockets_[0].name, sockets_[0].cpus, Affinity::close, target, {});
  }

  const Topology& topology_;
  const TargetOptions& options_;
  std::vector<Socket> sockets_;
  std::vector<int> all_;
  Plan plan_;
};

}  // namespace

Plan classes_of(const Topology& topology, const std::vector<int>& allowed,
                const TargetOptions& options) {
  return Classes(topology, allowed, options).make();
}

void keep_classes(Plan& plan, const std::vector<std::string>& classes) {
  if (classes.empty()) return;
  const auto other = [&](const std::string& text) {
    return std::none_of(classes.begin(), classes.end(),
                        [&](const std::string& name) { return text.starts_with(name); });
  };
  std::erase_if(plan.series, [&](const Series& series) { return other(series.group); });
  std::erase_if(plan.absent, [&](const Absent& absent) { return other(absent.what); });
}

Result<Plan> chosen_series(const std::vector<std::string>& targets, const std::vector<int>& cpus,
                           const std::vector<Affinity>& affinities, const TargetOptions& options) {
  const Topology topology = PENSTOCK_TRY(read_topology());
  Plan plan;
  for (const std::string& target : targets)
    for (const TargetSpec& spec : PENSTOCK_TRY(parse_targets(target, options)))
      for (const Affinity affinity : affinities) {
        Series series{.group = "chosen", .cpus = order_of(topology, cpus, affinity)};
        series.name = spec.name();
        if (affinities.size() > 1) series.name += fmt::format(", {}", affinity_name(affinity));
        if (!spec.place.empty() && spec.kind != TargetSpec::Kind::numa)
          series.name += fmt::format(" ({})", spec.place);
        series.affinity = affinity;
        series.target = spec;
        if (spec.kind == TargetSpec::Kind::numa) series.node = spec.node;
        plan.series.push_back(std::move(series));
      }
  return plan;
}

}  // namespace penstock::bench::stream
