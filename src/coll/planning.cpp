#include "coll/planning.hpp"

#include <algorithm>
#include <limits>

#include "coll/layout.hpp"
#include "coll/slots.hpp"
#include "schedule/hand_over.hpp"

namespace penstock::coll {

namespace {

/// Payload bytes of an eager block. The blocks of all ranks together are limited, because one rank
/// zeroes them all and each rank reads those of its node.
std::uint64_t eager_bytes_for(std::uint32_t ranks) {
  constexpr std::uint64_t of_all = 16 << 20, least_lines = 8;
  const Shape shape;
  const std::uint64_t lines = of_all / (std::uint64_t{ranks} * shape.eager_blocks * line_bytes);
  const std::uint64_t default_lines = shape.eager_bytes / coherence::tagged_bytes;
  return std::clamp(lines, least_lines, default_lines) * coherence::tagged_bytes;
}

/// Whether all ranks know that the longest block fits a part of an eager block.
bool fits_eager(const Problem& problem, const Shape& shape) {
  if (problem.collective == Collective::barrier) return true;
  if (!problem.max_block_bytes) return false;
  return *problem.max_block_bytes <=
         cut_of(problem, {.slot_bytes = shape.eager_bytes, .eager = true}).bytes;
}

/// Rounds must stay below this, because a chunk's number has few bits.
std::uint64_t max_rounds(const Problem& problem, Algorithm algorithm) {
  if (algorithm == Algorithm::one_shot) return max_chunks;
  const bool three_streams =
      algorithm >= Algorithm::two_level && problem.collective == Collective::allreduce;
  return three_streams ? max_chunks / 3 - 3 : max_chunks / 2 - 2;
}

/// Whether build() accepts the plan, by what all ranks know of the problem.
bool can_be(const Problem& problem, const Plan& plan, const Shape& shape, const NodeMap& nodes) {
  const bool bare = plan.algorithm == Algorithm::one_shot && plan.variant == Variant::all;
  if (problem.collective == Collective::barrier && bare) return true;
  if (!has_algorithm(problem.collective, plan.algorithm, nodes.ranks() == problem.ranks))
    return false;
  if (plan.algorithm != Algorithm::one_shot && plan.variant != Variant::all) return false;
  if (plan.variant == Variant::naive && shape.devices > 1 && !shape.sequential) return false;
  if (problem.collective == Collective::barrier) return plan.variant == Variant::all;
  const bool hands_on = plan.algorithm >= Algorithm::two_level;
  const std::uint64_t part =
      cut_of(problem, plan, hands_on ? max_handed_part(problem, plan, nodes) : ~0ull).bytes;
  if (part == 0) return false;
  std::uint64_t bytes = problem.max_block_bytes.value_or(0);
  if (reduces_shares(problem, plan))
    bytes = bytes / problem.ranks + problem.element_bytes;  // the longest share
  const std::uint64_t rounds = bytes / part + (bytes % part == 0 ? 0 : 1);
  return rounds < max_rounds(problem, plan.algorithm);
}

bool matches(const TuningEntry& entry, const Problem& problem, const NodeMap& nodes) {
  const std::uint32_t per_node = nodes.largest();
  if (!entry.covers_all_nodes() && (per_node < entry.min_per_node || per_node > entry.max_per_node))
    return false;
  if (problem.ranks < entry.min_ranks || problem.ranks > entry.max_ranks) return false;
  if (problem.collective == Collective::barrier) return entry.min_bytes == 0;
  if (!problem.max_block_bytes) return entry.covers_all_sizes();
  return *problem.max_block_bytes >= entry.min_bytes && *problem.max_block_bytes <= entry.max_bytes;
}

std::optional<Plan> plan_of(const TuningEntry& entry, std::uint32_t chunks, const Problem& problem,
                            const Shape& shape, const NodeMap& nodes) {
  Plan plan{.algorithm = entry.algorithm, .variant = entry.variant, .turns = entry.turns};
  plan.slot_bytes = shape.slot_bytes;
  plan.slots = shape.slots;
  plan.eager = entry.eager;
  plan.in_switch = entry.in_switch;
  if (entry.scratch_from != 0) plan.scratch_from = entry.scratch_from;
  if (plan.eager) return fits_eager(problem, shape) ? std::optional(plan) : std::nullopt;
  // With an unknown block size the number of chunks is unknown too, so use as few as possible.
  if (entry.chunk_bytes != 0 && problem.max_block_bytes)
    plan.slot_bytes = std::min(entry.chunk_bytes, shape.slot_bytes);
  if (problem.max_block_bytes) plan.chunks = chunks;
  return can_be(problem, plan, shape, nodes) ? std::optional(plan) : std::nullopt;
}

}  // namespace

std::optional<Plan> plan_of(const TuningEntry& entry, const Problem& problem, const Shape& shape,
                            const NodeMap& nodes) {
  return plan_of(entry, entry.chunks, problem, shape, nodes);
}

std::uint32_t chunks_for_gpus(const Problem& problem, Algorithm algorithm) {
  constexpr std::uint64_t pieces = 16, least = 128 << 10, most = 2 << 20;
  const bool by_shares = reduces_shares(problem, {.algorithm = algorithm});
  const std::uint64_t block = problem.max_block_bytes.value_or(0);
  const std::uint64_t bytes = by_shares ? block / problem.ranks : block;
  const std::uint64_t chunk = std::clamp(bytes / pieces, least, most);
  const std::uint64_t chunks = bytes / chunk + (bytes % chunk == 0 ? 0 : 1);
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(chunks, std::numeric_limits<std::uint32_t>::max()));
}

PlanTable::PlanTable(const Tuning& tuning, bool by_gpus) {
  const Tuning& built_in = by_gpus ? default_tuning_of_gpus() : default_tuning();
  for (std::uint32_t i = 0; i < collective_count; ++i) {
    const auto add = [&](const Tuning& table, bool chunks_for_gpus) {
      for (const TuningEntry& entry : table.entries)
        if (entry.collective.value_or(static_cast<Collective>(i)) == static_cast<Collective>(i))
          rows_.push_back({entry, chunks_for_gpus});
    };
    add(tuning, false);
    add(built_in, by_gpus);
    begins_[i + 1] = static_cast<std::uint32_t>(rows_.size());
  }
}

Plan PlanTable::plan(const Problem& problem, const Shape& shape, const NodeMap& nodes) const {
  const auto collective = static_cast<std::size_t>(problem.collective);
  for (std::uint32_t i = begins_[collective]; i < begins_[collective + 1]; ++i) {
    const auto& [entry, by_size] = rows_[i];
    if (!matches(entry, problem, nodes)) continue;
    const auto chunks = by_size ? chunks_for_gpus(problem, entry.algorithm) : entry.chunks;
    if (const auto plan = plan_of(entry, chunks, problem, shape, nodes)) return *plan;
  }
  // Nothing fits, not even a whole slot. build() reports what is missing.
  Plan plan;
  plan.slot_bytes = shape.slot_bytes;
  return plan;
}

Plan default_plan(const Problem& problem, const Shape& shape) {
  static const PlanTable table{Tuning{}};
  return table.plan(problem, shape);
}

std::uint32_t area_slots_of(std::uint64_t stripe_bytes, std::uint64_t slot_bytes) {
  // One page less than a stripe leaves room there for the next object's header.
  constexpr std::uint64_t page = 4096;
  return static_cast<std::uint32_t>((stripe_bytes - page) / slot_bytes);
}

Shape shape_for(std::uint32_t ranks, std::uint64_t pool_bytes, const Devices& devices) {
  constexpr std::uint64_t most = 256 << 10, least = 16 << 10, page = 4096;
  Shape shape{.eager_bytes = eager_bytes_for(ranks),
              .devices = std::clamp(devices.count, 1u, Devices::max_count),
              .sequential = devices.sequential};
  const std::uint64_t budget = pool_bytes / 32;
  for (;; shape.devices /= 2) {
    const std::uint64_t each = budget / Slots::count(ranks, shape);
    if (shape.devices > 1 && each < least) continue;
    shape.slot_bytes = std::clamp(each / page * page, least, most);
    if (shape.devices > 1) shape.area_slots = area_slots_of(devices.stripe_bytes, shape.slot_bytes);
    return shape;
  }
}

}  // namespace penstock::coll
