// Built schedules, and the eager form's list of reads. A communicator keeps those of its last
// calls, because programs repeat them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "coll/direct_program.hpp"
#include "coll/fingerprint.hpp"
#include "coll/flagged_program.hpp"
#include "coll/fused_program.hpp"
#include "coll/lane_program.hpp"
#include "schedule/problem.hpp"
#include "schedule/schedule.hpp"

namespace penstock::coll {

/// Bytes to read from another rank's eager block.
struct EagerRead {
  std::uint32_t rank = 0;
  std::uint64_t at = 0;  ///< offset in the payload, without tags; on a line
  std::uint64_t bytes = 0;
  std::int64_t copy = -1;       ///< the step to whose span the bytes go; -1: they are staged
  std::uint64_t staged_at = 0;  ///< offset in the staging memory
};

struct Prepared : std::enable_shared_from_this<Prepared> {
  /// `of`: a problem that build() accepts.
  Prepared(const Problem& of, const Plan& by);

  Problem problem;
  Plan plan;
  CallFacts facts;                ///< without the reduction
  std::uint64_t input_bytes = 0;  ///< this rank's input
  Schedule schedule;
  bool read_by_all = false;  ///< every other rank reads data of this rank
  // For eager plans:
  std::size_t first_reading = 0;  ///< the first step that reads: this rank has published by then
  std::vector<EagerRead> reads;
  std::vector<std::uint64_t> staged_operand;  ///< by operand: its offset in the staging memory
  std::uint64_t staged_bytes = 0;
  bool publishes_nothing = false;  ///< rings without data, as in a barrier
  // For a call whose data a Mover moves:
  LaneProgram program;
  /// Packets that it takes through a switch, whose schedule this is; 0: through the plain pool.
  std::uint64_t switch_packets = 0;
  // For a call that GPUs run by themselves:
  std::vector<DirectOp> direct;
  // For both, by one launch; empty for a call through the switch:
  std::vector<FusedRound> fused;
  // For a flagged call, whose plan is eager:
  std::optional<FlaggedProgram> flagged;
};

/// Payload of a line that only shows that its rank is there.
inline constexpr std::uint64_t bare_bytes = 8;

class PreparedSchedules {
 public:
  explicit PreparedSchedules(NodeMap nodes) : nodes_(std::move(nodes)) {}
  const NodeMap& nodes() const { return nodes_; }

  /// Returns a schedule that is valid until the next call, or as long as it is shared. Errors:
  /// those of build().
  Result<const Prepared*> get(const Problem& problem, const Plan& plan);
  /// Builds a schedule without keeping it. Another thread may be in get() at the same time.
  Result<std::shared_ptr<Prepared>> make(const Problem& problem, const Plan& plan) const;
  /// Like get(), with Prepared::program and ::fused. `plan` must not be eager. A communicator's
  /// schedules are all for this call, or all for get_direct().
  Result<const Prepared*> get_moved(const Problem& problem, const Plan& plan);
  /// Like get(), with Prepared::program and ::switch_packets. `make` makes the schedule.
  const Prepared* get_moved_by_switch(const Problem& problem, const Plan& plan,
                                      std::uint64_t packets, const std::function<Schedule()>& make);
  /// Like get(), with Prepared::direct and ::fused. `plan` must not be eager.
  Result<const Prepared*> get_direct(const Problem& problem, const Plan& plan,
                                     const Layout& layout);
  /// Like get(), with Prepared::flagged. `plan` must be eager.
  Result<const Prepared*> get_flagged(const Problem& problem, const Plan& plan);

 private:
  /// Only the last of the longer schedules is kept. They run long anyway, and take much memory.
  static constexpr std::size_t long_steps = 4096;
  /// Null if the schedule is not kept.
  Prepared* find(const Problem& problem, const Plan& plan, std::uint64_t switch_packets) const;
  Prepared* keep(std::shared_ptr<Prepared> made);
  Result<Prepared*> find_or_make(const Problem& problem, const Plan& plan);

  NodeMap nodes_;
  std::array<std::shared_ptr<Prepared>, 16> entries_;
  std::shared_ptr<Prepared> last_long_;
  std::size_t next_ = 0;
};

}  // namespace penstock::coll
