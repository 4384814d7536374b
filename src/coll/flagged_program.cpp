#include "coll/flagged_program.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "coherence/coherence.hpp"
#include "schedule/builder.hpp"
#include "schedule/flagged_units.hpp"

namespace penstock::coll {

std::uint64_t flagged_bytes_for(std::uint32_t ranks, std::uint64_t longest) {
  // Parts of a payload are cut as those of eager blocks, and a block has whole lines.
  constexpr std::uint64_t step = coherence::tagged_bytes * 4;
  static_assert(step * unit_bytes / unit_payload % coherence::line_bytes == 0);
  if (ranks < 2 || ranks > max_flagged_ranks) return 0;
  return (std::min(longest, max_flagged_read) + step - 1) / step * step;
}

bool is_flagged(const Problem& problem, const Shape& shape, std::uint64_t longest) {
  const std::uint64_t bytes = problem.max_block_bytes.value_or(0);
  if (bytes == 0 || bytes > longest || shape.flagged_bytes == 0) return false;
  if (problem.collective == Collective::barrier) return false;
  if (base::align_up(bytes, coherence::line_bytes) * (problem.ranks - 1) > max_flagged_read)
    return false;
  return bytes <= cut_of(problem, {.slot_bytes = shape.flagged_bytes, .eager = true}).bytes;
}

/// Data that a rank publishes from scratch memory was moved there before.
FlaggedProgram flagged_program_of(const Schedule& schedule) {
  FlaggedProgram made;
  for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == StepKind::publish) made.publishes.push_back(i);
    if (step.kind == StepKind::combine) made.moves.push_back(i);
    if (step.kind == StepKind::move)
      (step.span.buffer == Buffer::scratch ? made.keeps : made.moves).push_back(i);
  }
  return made;
}

}  // namespace penstock::coll
