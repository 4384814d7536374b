#include "offload/switch_plan.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "offload/exact.hpp"
#include "schedule/datatype.hpp"

namespace penstock::coll {

namespace {

using Offloaded = offload::Operation;

constexpr std::uint64_t line = coherence::line_bytes;
constexpr std::uint64_t max_chunks_in_switch = 1ull << 20;

std::optional<Offloaded> operation_of(Collective collective) {
  switch (collective) {
    case Collective::barrier:
      return Offloaded::barrier;
    case Collective::broadcast:
      return Offloaded::broadcast;
    case Collective::allgather:
      return Offloaded::all_gather;
    case Collective::reduce:
      return Offloaded::reduce;
    case Collective::reduce_scatter:
      return Offloaded::reduce_scatter;
    case Collective::allreduce:
      return Offloaded::all_reduce;
    default:
      return std::nullopt;
  }
}

bool all_have(const std::vector<Block>& blocks, std::uint64_t bytes) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [bytes](const Block& block) { return block.bytes == bytes; });
}

/// All ranks get the same answer, because a list of blocks is the same on all.
bool is_even(const Problem& problem) {
  const std::uint64_t bytes = *problem.max_block_bytes;
  if (problem.collective == Collective::allgather) return all_have(problem.output, bytes);
  if (problem.collective == Collective::reduce_scatter) return all_have(problem.input, bytes);
  return true;
}

}  // namespace

std::optional<SwitchPlan> switch_plan_of(const Problem& problem, const Reduction* reduction,
                                         const offload::Shape& shape) {
  const auto operation = operation_of(problem.collective);
  if (!operation || problem.ranks < 2 || problem.ranks > 0xffff) return std::nullopt;
  SwitchPlan plan{.operation = *operation, .datatype = static_cast<std::uint8_t>(Datatype::uint8)};
  if (*operation == Offloaded::barrier) return plan;
  if (!problem.max_block_bytes || *problem.max_block_bytes == 0 || !is_even(problem))
    return std::nullopt;
  if (is_reduction(problem.collective)) {
    if (reduction == nullptr) return std::nullopt;
    plan.reduction = static_cast<std::uint8_t>(reduction->operation());
    plan.datatype = static_cast<std::uint8_t>(reduction->type());
    plan.element_bytes = bytes_of(reduction->type());
  }
  if (*operation == Offloaded::reduce_scatter) plan.segments = problem.ranks;
  if (*operation == Offloaded::reduce_scatter || *operation == Offloaded::all_gather)
    plan.result_segments = problem.ranks;
  plan.block_bytes = *problem.max_block_bytes;
  // A line holds whole elements of every type.
  plan.part_bytes = shape.slot_bytes / plan.result_segments / line * line;
  if (plan.part_bytes == 0 || plan.block_bytes % plan.element_bytes != 0) return std::nullopt;
  plan.chunks = (plan.block_bytes + plan.part_bytes - 1) / plan.part_bytes;
  // A spine reads operands in place if their order affects the result.
  const bool order_shows = plan.reduces() && !offload::is_exact(plan.reduction, plan.datatype);
  plan.inlined = plan.result_segments == 1 && plan.block_bytes <= offload::inline_bytes &&
                 (shape.leaves == 0 || !order_shows);
  if (plan.chunks > max_chunks_in_switch) return std::nullopt;
  return plan;
}

Schedule switch_schedule_of(const Problem& problem, const SwitchPlan& plan, std::uint32_t window) {
  const std::uint32_t of_switch = problem.ranks;
  const bool own_segment = plan.operation == Offloaded::reduce_scatter;
  Schedule schedule;
  const auto sync = [&](StepKind kind, Lane lane, std::uint64_t chunk) {
    schedule.steps.push_back({.kind = kind, .lane = lane, .rank = of_switch, .chunk = chunk});
  };
  const auto move = [&](StepKind kind, Lane lane, std::uint64_t chunk, const Block& block,
                        std::uint64_t segment) {
    const Block part = plan.part(chunk);
    const Buffer buffer = kind == StepKind::publish ? Buffer::input : Buffer::output;
    schedule.steps.push_back({.kind = kind,
                              .lane = lane,
                              .rank = of_switch,
                              .chunk = chunk,
                              .at = segment * SwitchPlan::stride(part.bytes),
                              .span = {buffer, block.offset + part.offset, part.bytes}});
  };
  const auto send = [&](std::uint64_t chunk) {
    sync(StepKind::await_release, Lane::write, chunk);
    for (std::size_t i = 0; i < problem.input.size(); ++i)
      move(StepKind::publish, Lane::write, chunk, problem.input[i], i);
    sync(StepKind::ring, Lane::write, chunk);
  };
  for (std::uint64_t chunk = 0; chunk < std::min<std::uint64_t>(window, plan.chunks); ++chunk)
    send(chunk);
  for (std::uint64_t chunk = 0; chunk < plan.chunks; ++chunk) {
    sync(StepKind::wait, Lane::read, chunk);
    for (std::size_t i = 0; i < problem.output.size(); ++i)
      move(StepKind::copy, Lane::read, chunk, problem.output[i], own_segment ? problem.rank : i);
    sync(StepKind::release, Lane::read, chunk);
    if (chunk + window < plan.chunks) send(chunk + window);
  }
  return schedule;
}

}  // namespace penstock::coll
