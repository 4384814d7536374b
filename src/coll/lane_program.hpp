// A schedule whose data a Mover moves, such as a GPU. Its lanes are cut where control passes
// between the proxy, which runs the protocol, and the mover. Both follow the same program.
// Source: CCCL, section 4 (two streams of a rank).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace penstock::coll {

inline constexpr std::size_t lane_count = 2;

/// A part of one lane: waits, then the moves that they allow, then the words to publish. Indexes of
/// steps, ascending. Each list may be empty.
struct Segment {
  std::vector<std::uint32_t> waits, moves, signals;
  std::uint64_t bytes = 0;  ///< moved between this rank and the pool
  bool gate = false;        ///< the mover waits here until the proxy allows it
  bool mark = false;        ///< the proxy waits until the moves are done
  bool is_empty() const { return waits.empty() && moves.empty() && signals.empty(); }
};

/// One action of the mover, in an order that one thread can follow.
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
  std::uint64_t bytes = 0;  ///< of all segments
  /// Behind the gate of the read lane's last segment the mover only moves: no later gate, nothing
  /// that other ranks wait for.
  bool ends_quietly = false;

  const std::vector<Segment>& of(Lane lane) const { return lanes[static_cast<std::size_t>(lane)]; }
};

/// Indexes of the words by which proxy and mover hand over: they count the segments of a lane whose
/// gates are open, and of those that are marked.
constexpr std::uint64_t gate_word(Lane lane) {
  return static_cast<std::uint64_t>(lane);
}
constexpr std::uint64_t mark_word(Lane lane) {
  return lane_count + static_cast<std::uint64_t>(lane);
}
inline constexpr std::uint64_t lane_words = 2 * lane_count;

/// The first segment of a lane has a gate, and the last one has a mark. So all moves lie between
/// the begin and the end of the call.
LaneProgram lane_program_of(const Schedule& schedule);

}  // namespace penstock::coll
