// How long collectives take on a pool described by numbers: the engine's own schedules, run on
// shared links. One call, which all ranks begin at the same time, with free slots. Zero copy from
// users' memory in the pool is not modelled.
#pragma once

#include <vector>

#include "coll/communicator.hpp"
#include "coll/trace.hpp"
#include "model/platform.hpp"
#include "model/resources.hpp"
#include "schedule/problem.hpp"

namespace penstock::model {

struct PoolCase {
  coll::Collective collective = coll::Collective::allreduce;
  std::uint32_t ranks = 2;
  std::uint32_t per_node = 1;  ///< ranks that share a host, one after the other
  std::uint64_t block = 0;     ///< bytes of a block, as coll::uniform_problem() has it
  std::uint64_t bytes = 0;     ///< of a rank in all, for tables; 0: not said
  std::uint32_t devices = 0;   ///< that chunks go round; 0: as the engine chooses
};

struct Outcome {
  double seconds = 0;
  std::vector<Utilization> utilization;  ///< the busiest first
  std::vector<coll::TraceSpan> spans;    ///< filled if a timeline was asked for
};

/// Bytes of a block if each rank has `bytes` in all: for an alltoall and a reduce_scatter a share,
/// in whole elements of 4 bytes. Source: CCCL, Table 2.
std::uint64_t block_of(coll::Collective collective, std::uint32_t ranks, std::uint64_t bytes);

/// The shape of a communicator of `ranks` ranks on the platform's devices.
coll::Shape shape_of(const PlatformSet& set);

/// A call as planned by an entry of a tuning table, or without one.
struct PlannedCall {
  coll::Plan plan;
  std::string how;  ///< "two_shot", "eager", "one_shot turns chunk=64K"
  bool is_default = false;
};
/// The plan of the built-in table first, then every other possible one.
std::vector<PlannedCall> plans_of(const PlatformSet& set, const PoolCase& call);

/// Errors: those of coll::build(); deadline for a schedule that never ends, which names the place.
Result<Outcome> run_on_pool(const PlatformSet& set, const PoolCase& call, const coll::Plan& plan,
                            bool timeline = false);
/// Of the schedules of a published design, on the devices that it gives each chunk.
Result<Outcome> run_schedules(const PlatformSet& set, const PoolCase& call,
                              const std::vector<coll::Schedule>& schedules, bool timeline = false);

}  // namespace penstock::model
