#include "coll/builder.hpp"

#include <array>

#include "base/format.hpp"

namespace penstock::coll {

void Builder::publish(std::uint64_t chunk, const std::vector<Part>& parts,
                      const std::vector<std::uint32_t>& consumers, std::int64_t after) {
  if (consumers.empty()) return;
  Occupant& slot = last_in_slot_[chunk % plan_.slots];
  for (const std::uint32_t consumer : slot.consumers)
    push({.kind = StepKind::await_release,
          .lane = Lane::write,
          .rank = consumer,
          .chunk = slot.chunk});
  for (const Part& part : parts) {
    if (part.from.bytes == 0) continue;
    push({.kind = StepKind::publish,
          .lane = Lane::write,
          .rank = self(),
          .chunk = chunk,
          .at = part.at,
          .span = part.from,
          .after = after});
  }
  push({.kind = StepKind::ring,
        .lane = Lane::write,
        .rank = self(),
        .chunk = chunk,
        .after = after});
  slot = {chunk, consumers};
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

const char* name_of(Collective collective) {
  constexpr std::array<const char*, collective_count> names = {
      "barrier", "broadcast",      "gather",    "scatter", "allgather", "alltoall",
      "reduce",  "reduce_scatter", "allreduce", "scan",    "exscan"};
  return names[static_cast<std::size_t>(collective)];
}

const char* name_of(Algorithm algorithm) {
  return algorithm == Algorithm::one_shot ? "one_shot" : "two_shot";
}

const char* name_of(Variant variant) {
  return variant == Variant::all ? "all" : "aggregate";
}

namespace {

/// No block is longer than the longest, and a reduction's end with an element.
Result<void> check_sizes(const Problem& p) {
  for (const auto* blocks : {&p.input, &p.output}) {
    for (const Block& block : *blocks) {
      if (p.max_block_bytes && block.bytes > *p.max_block_bytes)
        return fail(ErrorCode::invalid_argument,
                    "{}: a block of {} bytes, and {} are said to be the most",
                    name_of(p.collective), block.bytes, *p.max_block_bytes);
      if (p.collective >= Collective::reduce && block.bytes % p.element_bytes != 0)
        return fail(ErrorCode::invalid_argument, "{}: a block of {} bytes, elements have {}",
                    name_of(p.collective), block.bytes, p.element_bytes);
    }
  }
  return {};
}

/// Blocks that the problem must name, by the table in problem.hpp.
Result<void> check_blocks(const Problem& p) {
  const bool root = p.rank == p.root;
  const std::size_t one = 1, all = p.ranks;
  std::size_t input = one, output = one;
  switch (p.collective) {
    case Collective::barrier:
      input = output = 0;
      break;
    case Collective::broadcast:
      input = root ? one : 0, output = root ? 0 : one;
      break;
    case Collective::gather:
      output = root ? all : 0;
      break;
    case Collective::scatter:
      input = root ? all : 0;
      break;
    case Collective::allgather:
      output = all;
      break;
    case Collective::alltoall:
      input = output = all;
      break;
    case Collective::reduce:
      output = root ? one : 0;
      break;
    case Collective::reduce_scatter:
      input = all;
      break;
    default:
      break;
  }
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
  const std::uint32_t least = plan.algorithm == Algorithm::two_shot ? 4 : 2;
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

Result<Schedule> build(const Problem& problem, const Plan& plan) {
  PENSTOCK_TRY(check(problem, plan));
  const bool reduces = problem.collective >= Collective::reduce;
  if (plan.algorithm == Algorithm::two_shot) return build_two_shot(problem, plan);
  auto built = reduces ? build_one_shot(problem, plan) : build_movement(problem, plan);
  if (built && plan.eager) PENSTOCK_TRY(check_one_chunk(problem, plan, *built));
  return built;
}

Traffic traffic_of(const Schedule& schedule) {
  Traffic traffic;
  for (const Step& step : schedule.steps) {
    switch (step.kind) {
      case StepKind::publish:
        traffic.written_bytes += step.span.bytes;
        break;
      case StepKind::copy:
        traffic.read_bytes += step.span.bytes;
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
        for (std::uint32_t i = 0; i < step.operand_count; ++i)
          traffic.read_bytes += schedule.operands[step.first_operand + i].own ? 0 : step.span.bytes;
        break;
      case StepKind::move:
        break;
    }
  }
  return traffic;
}

}  // namespace penstock::coll
