// Schedules that were built, and what the eager form reads by them. A communicator keeps those of
// its last calls: programs repeat them.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "coll/direct_program.hpp"
#include "coll/fingerprint.hpp"
#include "coll/fused_program.hpp"
#include "coll/lane_program.hpp"
#include "coll/problem.hpp"
#include "coll/schedule.hpp"
#include "coll/switch_plan.hpp"

namespace penstock::coll {

/// Bytes of another rank's eager block.
struct EagerRead {
  std::uint32_t rank = 0;
  std::uint64_t at = 0;  ///< payload, not counting tags; on a line
  std::uint64_t bytes = 0;
  std::int64_t copy = -1;       ///< the step whose span they go to; -1: they are staged
  std::uint64_t staged_at = 0;  ///< in the staging memory
};

struct Prepared : std::enable_shared_from_this<Prepared> {
  /// `of` is a problem that build() accepts.
  Prepared(const Problem& of, const Plan& by);

  Problem problem;
  Plan plan;
  CallFacts facts;                ///< without the reduction
  std::uint64_t input_bytes = 0;  ///< of this rank
  Schedule schedule;
  bool all_hear = false;  ///< every other rank reads something of this one
  // Of eager plans:
  std::size_t first_reading = 0;  ///< the step before which this rank has published
  std::vector<EagerRead> reads;
  std::vector<std::uint64_t> staged_operand;  ///< by operand: where it is staged
  std::uint64_t staged_bytes = 0;
  bool publishes_nothing = false;  ///< rings without a byte, as in a barrier
  // Of a call whose data is moved by a Mover:
  LaneProgram program;
  std::optional<SwitchPlan> in_switch;  ///< `schedule` is that of switch_schedule_of()
  // Of a call that GPUs do by themselves, by streams or by one launch:
  std::vector<DirectOp> direct;
  std::vector<FusedRound> fused;
};

/// Payload of a line that only says that its rank is there.
inline constexpr std::uint64_t bare_bytes = 8;

class PreparedSchedules {
 public:
  explicit PreparedSchedules(NodeMap nodes) : nodes_(std::move(nodes)) {}
  const NodeMap& nodes() const { return nodes_; }

  /// Errors: those of build(). What it returns stays until the next call, or as long as it is
  /// shared.
  Result<const Prepared*> get(const Problem& problem, const Plan& plan);
  /// The same, and nothing is kept: another thread may be in get() meanwhile.
  Result<std::shared_ptr<Prepared>> make(const Problem& problem, const Plan& plan) const;
  /// With Prepared::program. `plan` is not eager.
  Result<const Prepared*> get_moved(const Problem& problem, const Plan& plan);
  /// With Prepared::program and ::in_switch.
  const Prepared* get_moved_by_switch(const Problem& problem, const Plan& plan,
                                      const SwitchPlan& in_switch);
  /// With Prepared::direct and ::fused. `plan` is not eager.
  Result<const Prepared*> get_direct(const Problem& problem, const Plan& plan,
                                     const Layout& layout);

 private:
  /// Of long schedules only the last is kept: they take long anyhow, and much memory.
  static constexpr std::size_t long_steps = 4096;
  /// Null: it is not kept.
  Prepared* find(const Problem& problem, const Plan& plan,
                 const std::optional<SwitchPlan>& in_switch) const;
  Prepared* keep(std::shared_ptr<Prepared> made);
  Result<Prepared*> find_or_make(const Problem& problem, const Plan& plan);

  NodeMap nodes_;
  std::array<std::shared_ptr<Prepared>, 16> entries_;
  std::shared_ptr<Prepared> last_long_;
  std::size_t next_ = 0;
};

}  // namespace penstock::coll
