// A schedule whose data is moved by somebody else, a GPU: its lanes, cut where who keeps the
// protocol and who moves the data hand over to each other. Both go by the same program.
// Source: CCCL, section 4 (two streams of a rank); gpu.md, "CUDA".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coll/schedule.hpp"

namespace penstock::coll {

inline constexpr std::size_t lane_count = 2;

/// Of one lane: waits, then what is moved once they are over, then what is told of it. Numbers of
/// steps, ascending; each list may be empty.
struct Segment {
  std::vector<std::uint32_t> waits, moves, tells;
  bool gate = false;  ///< who moves waits here until the proxy allows it
  bool mark = false;  ///< the proxy waits until what is moved is done
  bool is_empty() const { return waits.empty() && moves.empty() && tells.empty(); }
};

/// What who moves the data does, in an order that needs one thread.
struct Event {
  enum class Kind : std::uint8_t {
    gate,  ///< of segment `number` of the lane
    move,  ///< step `number`
    mark,  ///< of segment `number`
  };
  Kind kind = Kind::move;
  Lane lane = Lane::read;
  std::uint32_t number = 0;
};

struct LaneProgram {
  std::array<std::vector<Segment>, lane_count> lanes;
  std::vector<Event> events;

  const std::vector<Segment>& of(Lane lane) const { return lanes[static_cast<std::size_t>(lane)]; }
};

/// The first segment of a lane has a gate, and the last one a mark: what is moved lies between the
/// begin and the end of the call.
LaneProgram lane_program_of(const Schedule& schedule);

}  // namespace penstock::coll
