// What a rank did when: the unit of an event timeline, whoever ran the schedule.
#pragma once

#include <cstdint>

#include "coll/schedule.hpp"

namespace penstock::coll {

/// One step, or several that were done together, of one lane of a rank.
struct TraceSpan {
  static constexpr std::uint16_t no_device = 0xffff;

  std::uint64_t begin_ns = 0, end_ns = 0;
  std::uint64_t bytes = 0;   ///< that were moved to or from the pool, or within the rank
  std::uint64_t number = 0;  ///< of the collective on its communicator, from 1
  std::uint32_t rank = 0;
  std::uint32_t peer = 0;   ///< the rank that it is about; of several the first
  std::uint32_t chunk = 0;  ///< of several the first
  std::uint16_t device = no_device;
  StepKind kind = StepKind::move;
  Lane lane = Lane::read;
};
static_assert(sizeof(TraceSpan) == 48);

}  // namespace penstock::coll
