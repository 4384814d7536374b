#include "schedule/builder.hpp"

#include <algorithm>
#include <array>

#include "base/checked.hpp"
#include "base/format.hpp"
#include "schedule/together.hpp"

namespace penstock::coll {

namespace {

/// Number of parts in a chunk: one that all consumers read, or one for each consumer.
std::uint32_t parts_of_chunk(const Problem& problem, const Plan& plan) {
  const bool own = spreads(problem.collective) || reduces_shares(problem, plan);
  return own && problem.ranks > 1 ? problem.ranks - 1 : 1;
}

}  // namespace

// Parts begin on a line boundary. In a reduction they hold whole elements. In a movement they need
// not, because the ranks may disagree on what an element is.
Cut cut_of(const Problem& problem, const Plan& plan, std::uint64_t most) {
  const std::uint64_t unit = is_reduction(problem.collective) ? problem.element_bytes : 1;
  const std::uint64_t line = plan.eager ? coherence::tagged_bytes : coherence::line_bytes;
  std::uint64_t stride = std::min(most, plan.slot_bytes / parts_of_chunk(problem, plan));
  if (plan.chunks != 0 && problem.max_block_bytes && !plan.eager) {
    const std::uint64_t shares = reduces_shares(problem, plan) ? problem.ranks : 1;
    const std::uint64_t chunks = shares * plan.chunks;
    const std::uint64_t wanted = (*problem.max_block_bytes + chunks - 1) / chunks;
    stride = std::min(stride, base::align_up(std::max(wanted, unit), line));
  }
  stride = stride / line * line;
  return {stride, stride / unit * unit};
}

// At most S consecutive chunk numbers are in flight, over all streams. So chunk n can use slot n
// mod M for any M >= S, and doorbell n mod S.
void Builder::await_slot(std::uint64_t chunk) {
  std::erase_if(in_slots_, [&](const Occupant& before) {
    if (before.chunk + plan_.slots > chunk) return false;
    for (const std::uint32_t consumer : before.consumers)
      push({.kind = StepKind::await_release,
            .lane = Lane::write,
            .rank = consumer,
            .chunk = before.chunk});
    return true;
  });
}

void Builder::publish(std::uint64_t chunk, const std::vector<Part>& parts,
                      const std::vector<std::uint32_t>& consumers, std::int64_t after) {
  if (consumers.empty()) return;
  await_slot(chunk);
  for (const Part& part : parts) {
    if (part.from.bytes == 0) continue;
    push({.kind = StepKind::publish,
          .lane = Lane::write,
          .rank = self(),
          .chunk = chunk,
          .at = part.at,
          .span = part.from,
          .readers = static_cast<std::uint32_t>(consumers.size()),
          .after = after});
  }
  push({.kind = StepKind::ring,
        .lane = Lane::write,
        .rank = self(),
        .chunk = chunk,
        .readers = static_cast<std::uint32_t>(consumers.size()),
        .first_reader = static_cast<std::uint32_t>(schedule_.readers.size()),
        .after = after});
  schedule_.readers.insert(schedule_.readers.end(), consumers.begin(), consumers.end());
  in_slots_.push_back({chunk, consumers});
  for (const std::uint32_t consumer : consumers) is_consumer_[consumer] = true;
}

void Builder::wait(std::uint32_t producer, std::uint64_t chunk) {
  push({.kind = StepKind::wait, .rank = producer, .chunk = chunk});
}

void Builder::copy(std::uint32_t producer, std::uint64_t chunk, std::uint64_t at, Span to,
                   std::int64_t after) {
  push({.kind = StepKind::copy,
        .rank = producer,
        .chunk = chunk,
        .at = at,
        .span = to,
        .after = after});
}

void Builder::move(Span from, Span to) {
  if (from.bytes == 0 || (from.buffer == to.buffer && from.offset == to.offset)) return;
  push({.kind = StepKind::move, .rank = self(), .span = to, .from = from});
}

std::int64_t Builder::combine(const std::vector<Operand>& operands, Span to, std::int64_t after) {
  push({.kind = StepKind::combine,
        .rank = self(),
        .span = to,
        .first_operand = static_cast<std::uint32_t>(schedule_.operands.size()),
        .operand_count = static_cast<std::uint32_t>(operands.size()),
        .after = after});
  schedule_.operands.insert(schedule_.operands.end(), operands.begin(), operands.end());
  return last_step();
}

void Builder::release(std::uint32_t producer, std::uint64_t chunk) {
  if (total_chunks_ != 0 && chunk + plan_.slots >= total_chunks_) return;
  push({.kind = StepKind::release, .rank = producer, .chunk = chunk});
}

const char* name_of(Algorithm algorithm) {
  constexpr std::array<const char*, 4> names = {"one_shot", "two_shot", "two_level", "leaders"};
  return names[static_cast<std::size_t>(algorithm)];
}

bool has_algorithm(Collective collective, Algorithm algorithm, bool nodes) {
  switch (algorithm) {
    case Algorithm::one_shot:
      return true;
    case Algorithm::two_shot:
      return collective == Collective::allreduce || collective == Collective::reduce;
    case Algorithm::leaders:
      if (nodes && collective == Collective::barrier) return true;
      [[fallthrough]];
    default:
      return nodes && (collective == Collective::allreduce || collective == Collective::allgather ||
                       collective == Collective::broadcast);
  }
}

const char* name_of(Variant variant) {
  constexpr std::array<const char*, 3> names = {"all", "aggregate", "naive"};
  return names[static_cast<std::size_t>(variant)];
}

namespace {

/// No block is longer than the stated maximum. In a reduction, blocks hold whole elements.
Result<void> check_sizes(const Problem& p) {
  for (const auto* blocks : {&p.input, &p.output}) {
    for (const Block& block : *blocks) {
      if (p.max_block_bytes && block.bytes > *p.max_block_bytes)
        return fail(ErrorCode::invalid_argument,
                    "{}: a block of {} bytes, and {} are said to be the most",
                    name_of(p.collective), block.bytes, *p.max_block_bytes);
      if (is_reduction(p.collective) && block.bytes % p.element_bytes != 0)
        return fail(ErrorCode::invalid_argument, "{}: a block of {} bytes, elements have {}",
                    name_of(p.collective), block.bytes, p.element_bytes);
    }
  }
  return {};
}

/// Checks that the problem has the number of blocks that collective_table requires.
Result<void> check_blocks(const Problem& p) {
  const CollectiveRow& row = row_of(p.collective);
  const std::size_t input = block_count(row.input, p.rank == p.root, p.ranks);
  const std::size_t output = block_count(row.output, p.rank == p.root, p.ranks);
  const bool counts_fit = p.input.size() == input && p.output.size() == output;
  if (counts_fit) return check_sizes(p);
  return fail(ErrorCode::invalid_argument,
              "{} on rank {} of {} needs {} blocks of input and {} of output, and got {} and {}",
              name_of(p.collective), p.rank, p.ranks, input, output, p.input.size(),
              p.output.size());
}

Result<void> check(const Problem& p, const Plan& plan) {
  if (p.ranks == 0 || p.rank >= p.ranks || p.root >= p.ranks || p.element_bytes == 0)
    return fail(ErrorCode::invalid_argument,
                "{}: rank {}, root {}, {} ranks, elements of {} bytes: ranks count from 0, and no "
                "number of ranks or bytes is 0",
                name_of(p.collective), p.rank, p.root, p.ranks, p.element_bytes);
  if (plan.eager && plan.algorithm != Algorithm::one_shot)
    return fail(ErrorCode::invalid_argument, "only one_shot can be eager");
  if (plan.algorithm != Algorithm::one_shot && plan.variant != Variant::all)
    return fail(ErrorCode::invalid_argument, "{} has the variant all only",
                name_of(plan.algorithm));
  const std::uint32_t least = plan.algorithm == Algorithm::one_shot ? 2 : 4;
  if (plan.slots < least)
    return fail(ErrorCode::invalid_argument, "{} slots for each rank; {} needs at least {}",
                plan.slots, name_of(plan.algorithm), least);
  return check_blocks(p);
}

Result<void> check_one_chunk(const Problem& p, const Plan& plan, const Schedule& schedule) {
  const bool one = std::all_of(schedule.steps.begin(), schedule.steps.end(),
                               [](const Step& step) { return step.chunk == 0; });
  if (one) return {};
  return fail(ErrorCode::invalid_argument,
              "{}: not all blocks fit one chunk of {} bytes, so it cannot be eager",
              name_of(p.collective), plan.slot_bytes);
}

}  // namespace

Result<Schedule> build(const Problem& problem, const Plan& plan, const NodeMap& nodes) {
  PENSTOCK_TRY(check(problem, plan));
  if (plan.algorithm >= Algorithm::two_level) return build_two_level(problem, plan, nodes);
  const bool reduces = is_reduction(problem.collective);
  if (plan.algorithm == Algorithm::two_shot) return build_two_shot(problem, plan, nodes);
  auto built = reduces ? build_one_shot(problem, plan) : build_movement(problem, plan);
  if (built && plan.eager) PENSTOCK_TRY(check_one_chunk(problem, plan, *built));
  return built;
}

Traffic traffic_of(const Schedule& schedule, const NodeMap& nodes, std::uint32_t rank) {
  Traffic traffic;
  const auto read = [&](std::uint32_t producer, std::uint64_t bytes) {
    traffic.read_bytes += bytes;
    if (nodes.ranks() != 0 && nodes.node_of(producer) != nodes.node_of(rank))
      traffic.remote_bytes += bytes;
  };
  for (const Step& step : schedule.steps) {
    switch (step.kind) {
      case StepKind::publish:
        traffic.written_bytes += step.span.bytes;
        break;
      case StepKind::copy:
        read(step.rank, step.span.bytes);
        break;
      case StepKind::ring:
        ++traffic.rings;
        break;
      case StepKind::wait:
      case StepKind::await_release:
        ++traffic.waits;
        break;
      case StepKind::release:
        ++traffic.releases;
        break;
      case StepKind::combine:
        for (std::uint32_t i = 0; i < step.operand_count; ++i) {
          const Operand& operand = schedule.operands[step.first_operand + i];
          if (!operand.own) read(operand.rank, step.span.bytes);
        }
        break;
      case StepKind::move:
        break;
    }
  }
  return traffic;
}

std::uint32_t operands_in_pool(const Schedule& schedule, const Step& step) {
  const auto first = schedule.operands.begin() + step.first_operand;
  return static_cast<std::uint32_t>(std::count_if(
      first, first + step.operand_count, [](const Operand& operand) { return !operand.own; }));
}

std::uint64_t accesses_of(const Schedule& schedule) {
  const auto& steps = schedule.steps;
  std::uint64_t accesses = 0;
  std::vector<bool> looked_at(steps.size());
  for (std::size_t i = 0; i < steps.size();) {
    const StepKind kind = steps[i].kind;
    if (kind == StepKind::copy) {
      ++accesses;
      i = end_of_copies(steps, i, [&](const Step& step) {
        return looked_at[static_cast<std::size_t>(&step - steps.data())];
      });
      continue;
    }
    accesses += kind == StepKind::combine;
    if (kind == StepKind::wait && !looked_at[i]) {
      ++accesses;
      for_waits_together(steps, i, [&](std::size_t wait) { looked_at[wait] = true; });
    }
    accesses +=
        kind == StepKind::await_release && (i == 0 || steps[i - 1].kind != StepKind::await_release);
    ++i;
  }
  return accesses;
}

}  // namespace penstock::coll
