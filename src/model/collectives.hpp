// How long collectives take on a pool that is described by numbers: the engine's own schedules, run
// on shared links. One call, which all ranks begin at once, on slots that are free; memory of the
// pool that users hold (zero copy) is not modelled.
#pragma once

#include <vector>

#include "coll/communicator.hpp"
#include "coll/problem.hpp"
#include "coll/trace.hpp"
#include "model/platform.hpp"
#include "model/resources.hpp"

namespace penstock::model {

struct PoolCase {
  coll::Collective collective = coll::Collective::allreduce;
  std::uint32_t ranks = 2;
  std::uint32_t per_node = 1;  ///< ranks that share a host, one after the other
  std::uint64_t block = 0;     ///< bytes of a block, as coll::uniform_problem() has it
  std::uint64_t bytes = 0;     ///< of a rank in all, for tables; 0: not said
};

struct Outcome {
  double seconds = 0;
  std::vector<Utilization> utilization;  ///< the busiest first
  std::vector<coll::TraceSpan> spans;    ///< where a timeline was asked for
};

/// Bytes of a block, where each rank has `bytes` in all: of an alltoall and a reduce_scatter a
/// share, in whole elements of 4 bytes. Source: CCCL, Table 2.
std::uint64_t block_of(coll::Collective collective, std::uint32_t ranks, std::uint64_t bytes);

/// What a communicator of so many ranks takes on the platform's devices.
coll::Shape shape_of(const PlatformSet& set);

/// What a tuning table's entry, or nothing, makes of the call.
struct PlannedCall {
  coll::Plan plan;
  std::string how;  ///< "two_shot", "eager", "one_shot turns chunk=64K"
  bool is_default = false;
};
/// That of the built-in table first, then every other one that can be.
std::vector<PlannedCall> plans_of(const PlatformSet& set, const PoolCase& call);

/// Errors: those of coll::build(); deadline, for a schedule that never ends, which names where.
Result<Outcome> run_on_pool(const PlatformSet& set, const PoolCase& call, const coll::Plan& plan,
                            bool timeline = false);
/// Of schedules that somebody else made, on `slots` slots a rank.
Result<Outcome> run_on_pool(const PlatformSet& set, const PoolCase& call,
                            const std::vector<coll::Schedule>& schedules, std::uint32_t slots,
                            bool timeline = false);

}  // namespace penstock::model
