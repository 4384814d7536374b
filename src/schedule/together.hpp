// The steps that one device access serves: the doorbells of a round, and its chunks while they are
// small. The steps still run in list order.
#pragma once

#include <cstddef>
#include <vector>

#include "schedule/schedule.hpp"

namespace penstock::coll {

/// Limits for one look: doorbells, and bytes of small chunks that are invalidated before the first
/// of them is loaded.
inline constexpr std::size_t max_waits_together = 64;
inline constexpr std::uint64_t max_bytes_together = 32 << 10;

/// Visits waits from `begin` on: consecutive ones, and those between copies of the same round.
template <class Visit>
void for_waits_together(const std::vector<Step>& steps, std::size_t begin, const Visit& visit) {
  std::size_t waits = 0;
  for (std::size_t i = begin; i < steps.size() && waits < max_waits_together; ++i) {
    const StepKind kind = steps[i].kind;
    if (kind == StepKind::wait) {
      visit(i);
      ++waits;
    } else if (kind != StepKind::copy && kind != StepKind::release) {
      return;
    }
  }
}

/// Index after the last copy that can be done together with the copy at `begin`. `is_over`: whether
/// a wait between them is over.
template <class IsOver>
std::size_t end_of_copies(const std::vector<Step>& steps, std::size_t begin,
                          const IsOver& is_over) {
  std::uint64_t bytes = steps[begin].span.bytes;
  std::size_t end = begin + 1;
  for (std::size_t i = end; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.kind == StepKind::copy) {
      bytes += step.span.bytes;
      if (bytes > max_bytes_together) break;
      end = i + 1;
    } else if (step.kind != StepKind::release && !(step.kind == StepKind::wait && is_over(step))) {
      break;
    }
  }
  return end;
}

/// Serialized device accesses of a schedule, if every rank is on time.
std::uint64_t accesses_of(const Schedule& schedule);

}  // namespace penstock::coll
