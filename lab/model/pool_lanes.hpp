// The ranks of a collective on a pool: they do their schedules step by step as the executors do,
// and each step takes its time. With one lane a rank is a thread, like coll's SlotRun: it follows
// the order of the list, looks at the doorbells of a round together and takes small chunks together
// (schedule/together.hpp); in the eager form it looks once at everything. With two lanes a rank has
// the streams of a GPU, which take each step by itself.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "coll/trace.hpp"
#include "model/resources.hpp"

namespace penstock::model {

/// The device of a rank's chunk. Ranks count across the nodes, as NodeMap::places_across() says.
using Placement = std::function<std::uint32_t(std::uint32_t rank, std::uint64_t chunk)>;

/// State of one call that all ranks share.
class PoolCall {
 public:
  /// `places`: of the ranks. `spans`: takes the timeline, or null.
  PoolCall(Machine& machine, const PoolResources& resources,
           const std::vector<coll::Schedule>& schedules, Placement placement,
           std::vector<std::uint32_t> places, bool eager, std::vector<coll::TraceSpan>* spans)
      : machine_(machine),
        resources_(resources),
        schedules_(schedules),
        placement_(std::move(placement)),
        places_(std::move(places)),
        eager_(eager),
        spans_(spans) {}

  /// Adds the lanes of all ranks.
  void add_lanes();
  /// The schedules use a switch that computes, which has the number after the last rank.
  bool in_switch() const { return in_switch_; }
  void go_through_switch() { in_switch_ = true; }

  const PoolResources& resources() const { return resources_; }
  const coll::Schedule& schedule(std::uint32_t rank) const { return schedules_[rank]; }
  bool eager() const { return eager_; }
  std::uint32_t device_of(std::uint32_t producer, std::uint64_t chunk) const {
    const bool is_rank = producer < places_.size();  // and no switch
    if (eager_ || !is_rank) return 0;
    return placement_(places_[producer], chunk);
  }
  std::vector<PoolResources::DeviceShare> devices_of(std::uint32_t producer,
                                                     std::uint64_t chunk) const {
    if (in_switch_) return resources_.switch_slots();
    return {{device_of(producer, chunk), 1}};
  }
  Word doorbell(std::uint32_t producer, std::uint64_t chunk) { return word({0, producer, chunk}); }
  Word release(std::uint32_t producer, std::uint32_t consumer) {
    return word({1, producer, consumer});
  }
  Word step(std::uint32_t rank, std::uint64_t index) { return word({2, rank, index}); }
  void record(const coll::TraceSpan& span) {
    if (spans_ != nullptr) spans_->push_back(span);
  }

 private:
  struct Name {
    int kind = 0;
    std::uint64_t one = 0, other = 0;
    auto operator<=>(const Name&) const = default;
  };
  Word word(const Name& name);

  Machine& machine_;
  const PoolResources& resources_;
  const std::vector<coll::Schedule>& schedules_;
  const Placement placement_;
  const std::vector<std::uint32_t> places_;
  const bool eager_;
  bool in_switch_ = false;
  std::vector<coll::TraceSpan>* spans_;
  std::map<Name, Word> words_;
};

}  // namespace penstock::model
