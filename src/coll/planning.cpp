#include "coll/planning.hpp"

#include <algorithm>

#include "coherence/coherence.hpp"

namespace penstock::coll {

namespace {

bool has_parts(const Problem& problem) {
  const bool own = problem.collective == Collective::scatter ||
                   problem.collective == Collective::alltoall ||
                   problem.collective == Collective::reduce_scatter;
  return own && problem.ranks > 1;
}

/// Whether the longest block fits a part of an eager block, and all ranks know it.
bool fits_eager(const Problem& problem, const Shape& shape) {
  if (problem.collective == Collective::barrier) return true;
  if (!problem.max_block_bytes) return false;
  const std::uint64_t parts = has_parts(problem) ? problem.ranks - 1 : 1;
  const std::uint64_t stride =
      shape.eager_bytes / parts / coherence::tagged_bytes * coherence::tagged_bytes;
  const std::uint64_t unit = problem.collective >= Collective::reduce ? problem.element_bytes : 1;
  return *problem.max_block_bytes <= stride / unit * unit;
}

}  // namespace

Plan default_plan(const Problem& problem, const Shape& shape) {
  Plan plan;
  plan.slot_bytes = shape.slot_bytes;
  plan.eager = fits_eager(problem, shape);
  // Two ranks move as many bytes in both; below that size the second hand-over costs more than half
  // of the arithmetic.
  constexpr std::uint64_t two_ranks_from = 64 << 10;
  const bool worth_it = problem.ranks > 2 || problem.max_block_bytes.value_or(0) >= two_ranks_from;
  if (!plan.eager && problem.collective == Collective::allreduce && worth_it)
    plan.algorithm = Algorithm::two_shot;
  return plan;
}

}  // namespace penstock::coll
