// The links and engines of a pool and its hosts, as resources that transfers share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/machine.hpp"
#include "model/platform.hpp"
#include "schedule/node_map.hpp"

namespace penstock::model {

/// The part of the time in which the busiest resource of a kind was in use.
struct Utilization {
  std::string what;
  double share = 0;
};

class PoolResources {
 public:
  PoolResources(Machine& machine, const Platform& platform, std::uint32_t devices,
                const coll::NodeMap& nodes);

  const Platform& platform() const { return platform_; }
  std::uint32_t ranks() const { return nodes_.ranks(); }
  bool same_node(std::uint32_t one, std::uint32_t other) const {
    return nodes_.node_of(one) == nodes_.node_of(other);
  }
  /// The resources that a transfer of `rank` to or from the pool uses. For each of `shares`,
  /// `share` of every byte goes to device i.
  struct DeviceShare {
    std::uint32_t device = 0;
    double share = 1;
  };
  std::vector<Use> write(std::uint32_t rank, const std::vector<DeviceShare>& shares) const;
  std::vector<Use> read(std::uint32_t rank, const std::vector<DeviceShare>& shares) const;
  /// Where a switch that computes has its slots: evenly on all devices, or, if inside it, on none.
  const std::vector<DeviceShare>& switch_slots() const { return switch_slots_; }
  /// The resources of switch `number` when it gathers, or gives; `reduces`: through its arithmetic.
  std::vector<Use> gather(std::uint32_t number, bool reduces) const;
  std::vector<Use> give(std::uint32_t number) const;
  std::uint32_t leaves() const;
  std::uint32_t leaf_of(std::uint32_t rank) const;
  /// A transfer within the host's memory.
  std::vector<Use> local(std::uint32_t rank) const;
  /// The queue of the transfers that write to a device, or read from it; -1: none.
  std::int64_t turn(std::uint32_t device, bool writes) const;

  /// The busiest kind first.
  std::vector<Utilization> utilization(Machine& machine, double seconds) const;

 private:
  struct Kind {
    std::string what;
    std::vector<Resource> all;
  };
  /// Adds `count` resources; none if a rate of 0 sets no limit.
  std::vector<Resource> add(Machine& machine, const char* what, std::size_t count, double GBps);
  std::size_t place_of(std::uint32_t rank) const { return place_of_node_[rank]; }

  const Platform platform_;
  const coll::NodeMap nodes_;
  std::vector<std::size_t> place_of_node_;  ///< by rank
  std::vector<Kind> kinds_;
  std::vector<Resource> device_writes_, device_reads_, pool_, up_, down_, writers_, readers_,
      memories_;
  std::vector<Resource> accelerators_, arithmetics_;
  std::vector<DeviceShare> switch_slots_;
  std::vector<std::int64_t> write_turns_, read_turns_;
};

}  // namespace penstock::model
