#include "model/collectives.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "coll/planning.hpp"
#include "model/pool_lanes.hpp"
#include "model/switch_lane.hpp"
#include "schedule/placement.hpp"
#include "schedule/uniform.hpp"

namespace penstock::model {

namespace {

using coll::Collective;

/// The engine's.
Placement placement_of(const PlatformSet& set, const PoolCase& call, coll::Variant variant) {
  const auto problem = coll::uniform_problem(call.collective, call.ranks, 0, 0, call.block);
  const std::uint32_t used =
      call.devices != 0 ? call.devices : coll::devices_for(problem, variant, set.devices);
  return [ranks = call.ranks, used](std::uint32_t rank, std::uint64_t chunk) {
    return coll::device_of(rank, ranks, chunk, used);
  };
}

/// Source: CCCL, equations 1 to 4. Where all ranks write and read, and one number divides the
/// other, each rank has a range of devices. Else all go round all devices.
Placement published_placement(const PlatformSet& set, const PoolCase& call) {
  const std::uint32_t ranks = call.ranks, devices = set.devices;
  const bool ranges = !has_root(call.collective) && (devices % ranks == 0 || ranks % devices == 0);
  const std::uint32_t span = ranges ? std::max(1u, devices / ranks) : devices;
  return [ranks, devices, span](std::uint32_t rank, std::uint64_t chunk) {
    return static_cast<std::uint32_t>((coll::device_of(rank, ranks, 0, devices) + chunk % span) %
                                      devices);
  };
}

Result<Outcome> run(const PlatformSet& set, const PoolCase& call, Placement placement,
                    const std::vector<coll::Schedule>& schedules, bool eager, bool timeline) {
  Machine machine;
  const auto nodes = coll::nodes_in_blocks(call.ranks, call.per_node);
  const PoolResources resources(machine, set.platform(), set.devices, nodes);
  Outcome outcome;
  PoolCall pool_call(machine, resources, schedules, std::move(placement), nodes.places_across(),
                     eager, timeline ? &outcome.spans : nullptr);
  pool_call.add_lanes();
  outcome.seconds = PENSTOCK_TRY(machine.run());
  if (outcome.seconds > 0) outcome.utilization = resources.utilization(machine, outcome.seconds);
  return outcome;
}

/// Reductions are sums of float32 or, if every order must give the same bits, of int32.
std::optional<coll::SwitchPlan> switch_plan(const PlatformSet& set, const coll::Problem& problem) {
  const Platform platform = set.platform();
  if (platform.switches < 1) return std::nullopt;
  const auto reduction =
      coll::Reduction::make(platform.exact != 0 ? coll::Datatype::int32 : coll::Datatype::float32,
                            coll::Operation::sum, problem.ranks);
  return coll::switch_plan_of(problem, reduction ? &*reduction : nullptr,
                              {.ranks = problem.ranks,
                               .leaves = static_cast<std::uint32_t>(platform.switches) - 1,
                               .window = set.slots,
                               .slot_bytes = set.slot_bytes});
}

Result<Outcome> run_in_switch(const PlatformSet& set, const PoolCase& call, bool timeline) {
  const auto problem_of = [&](std::uint32_t rank) {
    return coll::uniform_problem(call.collective, call.ranks, rank, 0, call.block);
  };
  const auto plan = switch_plan(set, problem_of(0));
  if (!plan)
    return fail(ErrorCode::invalid_argument,
                "{} of {} bytes on {} ranks: no switch computes it; --set switches=1 adds one",
                name_of(call.collective), call.block, call.ranks);
  Machine machine;
  const auto nodes = coll::nodes_in_blocks(call.ranks, call.per_node);
  const PoolResources resources(machine, set.platform(), set.devices, nodes);
  std::vector<coll::Schedule> schedules;
  for (std::uint32_t rank = 0; rank < call.ranks; ++rank)
    schedules.push_back(modelled_schedule_of(resources, problem_of(rank), *plan, set.slots));
  Outcome outcome;
  PoolCall pool_call(machine, resources, schedules, placement_of(set, call, coll::Variant::all),
                     nodes.places_across(), false, timeline ? &outcome.spans : nullptr);
  pool_call.go_through_switch();
  pool_call.add_lanes();
  add_switch_lanes(machine, pool_call, *plan, call.ranks);
  outcome.seconds = PENSTOCK_TRY(machine.run());
  if (outcome.seconds > 0) outcome.utilization = resources.utilization(machine, outcome.seconds);
  return outcome;
}

std::string how(const coll::TuningEntry& entry) {
  std::string text = entry.eager ? "eager" : name_of(entry.algorithm);
  if (entry.variant != coll::Variant::all) text += std::string(" ") + name_of(entry.variant);
  if (entry.turns) text += " turns";
  if (entry.chunk_bytes != 0) text += fmt::format(" chunk={}K", entry.chunk_bytes >> 10);
  return text;
}

/// The ways to do a call; impossible ones are left out.
std::vector<coll::TuningEntry> ways(Collective collective, std::uint32_t per_node) {
  std::vector<coll::TuningEntry> all(1);
  all[0].eager = true;
  for (const coll::Algorithm algorithm : coll::all_algorithms) {
    if (algorithm >= coll::Algorithm::two_level && per_node == 1) continue;
    for (const std::uint64_t chunk : {0, 16 << 10, 64 << 10}) {
      coll::TuningEntry entry;
      entry.algorithm = algorithm;
      entry.chunk_bytes = chunk;
      all.push_back(entry);
      entry.turns = true;
      if (collective == Collective::broadcast && algorithm == coll::Algorithm::one_shot)
        all.push_back(entry);
      entry.turns = false;
      entry.variant = coll::Variant::aggregate;
      if (algorithm == coll::Algorithm::one_shot && chunk == 0) all.push_back(entry);
      entry.variant = coll::Variant::naive;
      if (algorithm == coll::Algorithm::one_shot && chunk == 0) all.push_back(entry);
    }
  }
  return all;
}

}  // namespace

std::uint64_t block_of(Collective collective, std::uint32_t ranks, std::uint64_t bytes) {
  constexpr std::uint64_t element = 4;
  const bool shares = all_spread(collective);
  if (collective == Collective::barrier) return 0;
  return shares ? std::max<std::uint64_t>(bytes / ranks / element, 1) * element : bytes;
}

coll::Shape shape_of(const PlatformSet& set) {
  coll::Shape shape;
  shape.slots = set.slots;
  shape.slot_bytes = set.slot_bytes;
  shape.devices = set.devices;
  shape.sequential = true;
  return shape;
}

std::vector<PlannedCall> plans_of(const PlatformSet& set, const PoolCase& call) {
  const coll::Shape shape = shape_of(set);
  const auto nodes = coll::nodes_in_blocks(call.ranks, call.per_node);
  const auto problem = coll::uniform_problem(call.collective, call.ranks, 0, 0, call.block);
  const coll::Plan usual = coll::default_plan(problem, shape);
  std::vector<PlannedCall> plans;
  for (const coll::TuningEntry& way : ways(call.collective, call.per_node)) {
    auto plan = coll::plan_of(way, problem, shape, nodes);
    if (!plan) continue;
    const auto same = [&](const PlannedCall& other) { return other.plan == *plan; };
    if (std::any_of(plans.begin(), plans.end(), same)) continue;
    plans.push_back({*plan, how(way), *plan == usual});
  }
  if (!plans.empty() && switch_plan(set, problem)) {
    coll::Plan in_switch = usual;
    in_switch.in_switch = true;
    plans.push_back({in_switch, "switch", false});
  }
  std::stable_sort(plans.begin(), plans.end(), [](const auto& one, const auto& other) {
    return one.is_default > other.is_default;
  });
  return plans;
}

Result<Outcome> run_on_pool(const PlatformSet& set, const PoolCase& call, const coll::Plan& plan,
                            bool timeline) {
  if (plan.in_switch) return run_in_switch(set, call, timeline);
  const auto nodes = coll::nodes_in_blocks(call.ranks, call.per_node);
  coll::Plan fitting = plan;
  if (plan.eager) {
    const coll::Shape shape = shape_of(set);
    fitting.slot_bytes = shape.eager_bytes;
    fitting.slots = 2;
  }
  std::vector<coll::Schedule> schedules;
  for (std::uint32_t rank = 0; rank < call.ranks; ++rank)
    schedules.push_back(PENSTOCK_TRY(coll::build(
        coll::uniform_problem(call.collective, call.ranks, rank, 0, call.block), fitting, nodes)));
  return run(set, call, placement_of(set, call, plan.variant), schedules, plan.eager, timeline);
}

Result<Outcome> run_schedules(const PlatformSet& set, const PoolCase& call,
                              const std::vector<coll::Schedule>& schedules, bool timeline) {
  return run(set, call, published_placement(set, call), schedules, false, timeline);
}

}  // namespace penstock::model
