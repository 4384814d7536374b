#include "model/resources.hpp"

#include <algorithm>

namespace penstock::model {

PoolResources::PoolResources(Machine& machine, const Platform& platform, std::uint32_t devices,
                             const coll::NodeMap& nodes)
    : platform_(platform), nodes_(nodes) {
  const auto& hosts = nodes_.all();
  for (std::uint32_t rank = 0; rank < nodes_.ranks(); ++rank) {
    const auto own = std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) {
      return host.number == nodes_.node_of(rank);
    });
    place_of_node_.push_back(static_cast<std::size_t>(own - hosts.begin()));
  }
  const bool duplex = platform.duplex != 0;
  device_writes_ = add(machine, "devices", devices, platform.device_GBps);
  device_reads_ =
      duplex ? add(machine, "devices, read", devices, platform.device_GBps) : device_writes_;
  pool_ = add(machine, "the switch", 1, platform.pool_GBps);
  up_ = add(machine, "links to the pool", hosts.size(), platform.link_GBps);
  down_ = add(machine, "links from the pool", hosts.size(), platform.link_GBps);
  writers_ = add(machine, "ranks' writing", ranks(), platform.write_GBps);
  readers_ = add(machine, "ranks' reading", ranks(), platform.read_GBps);
  memories_ = add(machine, "hosts' memory", hosts.size(), platform.memory_GBps);
  const auto switches = static_cast<std::size_t>(platform.switches);
  accelerators_ = add(machine, "switches that compute", switches, platform.accel_GBps);
  arithmetics_ = add(machine, "their arithmetic", switches, platform.combine_GBps);
  for (std::uint32_t device = 0; platform.inside == 0 && device < devices; ++device)
    switch_slots_.push_back({device, 1.0 / devices});
  for (std::uint32_t device = 0; platform.turns != 0 && device < devices; ++device) {
    write_turns_.push_back(machine.add_turn());
    read_turns_.push_back(duplex ? machine.add_turn() : write_turns_.back());
  }
}

std::vector<Resource> PoolResources::add(Machine& machine, const char* what, std::size_t count,
                                         double GBps) {
  std::vector<Resource> added;
  for (std::size_t i = 0; GBps > 0 && i < count; ++i)
    added.push_back(machine.fluid().add_resource(GBps * 1e9));
  if (!added.empty()) kinds_.push_back({what, added});
  return added;
}

std::vector<Use> PoolResources::write(std::uint32_t rank,
                                      const std::vector<DeviceShare>& shares) const {
  std::vector<Use> uses;
  for (const DeviceShare& each : shares)
    if (!device_writes_.empty()) uses.push_back({device_writes_[each.device], each.share});
  if (!pool_.empty()) uses.push_back({pool_[0]});
  if (!up_.empty()) uses.push_back({up_[place_of(rank)]});
  if (!writers_.empty()) uses.push_back({writers_[rank]});
  return uses;
}

std::vector<Use> PoolResources::read(std::uint32_t rank,
                                     const std::vector<DeviceShare>& shares) const {
  std::vector<Use> uses;
  for (const DeviceShare& each : shares)
    if (!device_reads_.empty()) uses.push_back({device_reads_[each.device], each.share});
  if (!pool_.empty()) uses.push_back({pool_[0]});
  if (!down_.empty()) uses.push_back({down_[place_of(rank)]});
  if (!readers_.empty()) uses.push_back({readers_[rank]});
  return uses;
}

std::vector<Use> PoolResources::gather(std::uint32_t number, bool reduces) const {
  std::vector<Use> uses;
  for (const DeviceShare& each : switch_slots_)
    if (!device_reads_.empty()) uses.push_back({device_reads_[each.device], each.share});
  if (!accelerators_.empty()) uses.push_back({accelerators_[number]});
  if (reduces && !arithmetics_.empty()) uses.push_back({arithmetics_[number]});
  return uses;
}

std::vector<Use> PoolResources::give(std::uint32_t number) const {
  std::vector<Use> uses;
  for (const DeviceShare& each : switch_slots_)
    if (!device_writes_.empty()) uses.push_back({device_writes_[each.device], each.share});
  if (!accelerators_.empty()) uses.push_back({accelerators_[number]});
  return uses;
}

std::uint32_t PoolResources::leaves() const {
  return platform_.switches < 2 ? 0 : static_cast<std::uint32_t>(platform_.switches) - 1;
}

/// Hosts belong to the leaves in turn.
std::uint32_t PoolResources::leaf_of(std::uint32_t rank) const {
  return leaves() == 0 ? 0 : static_cast<std::uint32_t>(place_of(rank)) % leaves();
}

std::vector<Use> PoolResources::local(std::uint32_t rank) const {
  if (memories_.empty()) return {};
  return {{memories_[place_of(rank)]}};
}

std::int64_t PoolResources::turn(std::uint32_t device, bool writes) const {
  if (write_turns_.empty()) return -1;
  return writes ? write_turns_[device] : read_turns_[device];
}

std::vector<Utilization> PoolResources::utilization(Machine& machine, double seconds) const {
  std::vector<Utilization> found;
  for (const Kind& kind : kinds_) {
    Utilization busiest{kind.what, 0};
    for (const Resource resource : kind.all) {
      const double possible = machine.fluid().rate(resource) * seconds;
      busiest.share = std::max(busiest.share, machine.fluid().carried(resource) / possible);
    }
    found.push_back(busiest);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& one, const auto& other) { return one.share > other.share; });
  return found;
}

}  // namespace penstock::model
