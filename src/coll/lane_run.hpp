// The slot form for a call whose data a Mover moves, such as a GPU's streams, while this thread
// runs the protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coll/lane_pace.hpp"
#include "coll/lane_program.hpp"
#include "coll/slot_signals.hpp"

namespace penstock::coll {

class LaneRun final : public SlotSignals {
 public:
  LaneRun(State& state, SlotReaders& readers, std::uint64_t long_call_bytes)
      : SlotSignals(state, readers), long_call_bytes_(long_call_bytes) {}
  void begin(const Call& call, const Prepared& prepared) override;
  Result<bool> advance(Missing& missing) override;
  /// In a long call it sleeps while chunks move.
  void rest() override { pace_.rest(); }

 private:
  enum class Stage : std::uint8_t { waits, moves };
  struct LaneState {
    Stage stage = Stage::waits;
    bool begun = false;  ///< the segment's waits have begun
    std::size_t segment = 0;
    std::uint64_t bytes = 0;  ///< moved since the last mark
    std::vector<std::size_t> pending;
    /// Whether everything of `segments` is published. A proof may leave out the wait for that.
    bool has_announced(std::size_t segments, Site site = Site::here()) const {
      return segment == segments || coherence::weakened(coherence::Weakening::wait, site);
    }
  };
  Result<bool> advance_lane(Lane lane, Missing& missing);
  Result<bool> waits_are_over(const Segment& segment, LaneState& at, Missing& missing);
  bool comes_too_early(Lane lane, std::size_t segment) const;
  Result<void> make_readable(const Segment& segment);
  void signal(const Segment& segment);

  const std::uint64_t long_call_bytes_;
  LanePace pace_;
  std::array<LaneState, lane_count> at_;
  bool is_read_apart_ = false;  ///< ranks of other nodes read what this rank publishes in the call
};

}  // namespace penstock::coll
