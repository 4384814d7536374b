// Gives each call to the executor that its plan asks for: eager, slots, a Mover's lanes, or a
// switch. It also waits for slots that come late, and gives the rest of a call that a switch has
// left to an executor of the plain pool.
#pragma once

#include <cstdint>
#include <memory>

#include "coll/eager_run.hpp"
#include "coll/lane_run.hpp"
#include "coll/late_slots.hpp"
#include "coll/slot_run.hpp"
#include "coll/switch_interface.hpp"

namespace penstock::coll {

class Execution {
 public:
  Execution(State& state, const PreparedSchedules& schedules, const Options& options);

  /// Begins a call. Its collective has its number already.
  void begin(const Call& call, const Prepared& prepared);
  /// As Executor::advance(). Until the slots exist, `missing` is rank 0.
  Result<bool> advance(Missing& missing);
  void rest() { now_->rest(); }
  /// Changes as the call progresses.
  std::uint64_t position() const;
  /// The call as it runs: on the host, if a Mover was to move its data and the switch was lost.
  const Call& call() const { return call_; }
  bool is_in_switch() const { return now_ == in_switch_.get(); }
  bool awaits_slots() const { return awaits_slots_ != nullptr; }

  LateSlots& late_slots() { return late_slots_; }
  const LateSlots& late_slots() const { return late_slots_; }
  /// Null if no switch serves the communicator.
  SwitchExecutor* in_switch() const { return in_switch_.get(); }

 private:
  void begin_in_pool(const Prepared& prepared);
  Executor& by_slots() { return call_.mover == nullptr ? static_cast<Executor&>(slots_) : lanes_; }
  bool can_begin_by_slots(const Prepared& prepared) const;
  Result<bool> begin_once_slots_are_there(Missing& missing);
  Result<bool> after_advance(bool done, Missing& missing);
  Result<bool> go_on_in_pool(Missing& missing);

  State& s_;
  const PreparedSchedules& schedules_;
  SlotReaders readers_;
  EagerRun eager_;
  SlotRun slots_;
  LaneRun lanes_;
  std::unique_ptr<SwitchExecutor> in_switch_;
  LateSlots late_slots_;
  Executor* now_ = &slots_;
  Call call_;
  const Prepared* awaits_slots_ = nullptr;  ///< the call in progress, while it waits for the slots
  /// A schedule made during the call: for the part that the switch has left, or for the whole call
  /// if the slots are shorter than expected.
  std::shared_ptr<Prepared> remade_;
};

}  // namespace penstock::coll
