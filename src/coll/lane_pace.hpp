// When the thread that keeps the protocol looks again, while a Mover moves the data of a long call.
// A chunk takes a known time, so the thread sleeps for most of it and polls only for the rest.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>

#include "coll/lane_program.hpp"

namespace penstock::coll {

/// Of one communicator, which makes one call at a time. Reads no clock in a short call.
///
///     for (pace.begin(is_long); !look(); pace.rest()) {}  // look() calls wait(), move() and end()
///     pace.end_call();
class LanePace {
 public:
  /// The thread's time; tests have their own.
  struct Time {
    std::function<std::uint64_t()> now_ns;
    std::function<void(std::uint64_t ns)> sleep;
  };
  /// The longest sleep between two looks: an abort is noticed at a look.
  static constexpr std::uint64_t longest_ns = 200'000;
  /// Shorter chunks are polled.
  static constexpr std::uint64_t shortest_chunk_ns = 10'000;

  LanePace() : LanePace(system_time()) {}
  explicit LanePace(Time time) : time_(std::move(time)) {}

  /// Begins a call, in which both lanes wait at first. Without `sleeps` nothing else has an effect.
  void begin(bool sleeps) {
    sleeps_ = sleeps;
    if (sleeps) begin_lanes();
  }
  /// The lane begins to wait for other ranks.
  void wait(Lane lane) {
    if (sleeps_) enter(lane, Stage::waits, 0);
  }
  /// The mover may move `bytes` between the pool and this rank in the lane.
  void move(Lane lane, std::uint64_t bytes) {
    if (sleeps_) enter(lane, Stage::moves, bytes);
  }
  /// The lane is done.
  void end(Lane lane) {
    if (sleeps_) enter(lane, Stage::done, 0);
  }
  void end_call() { sleeps_ = false; }
  /// Called after a look in vain. Sleeps while the next one would be in vain too.
  void rest() {
    if (sleeps_) sleep();
  }

 private:
  enum class Stage : std::uint8_t { waits, moves, done };
  struct LaneState {
    Stage stage = Stage::waits;
    std::uint32_t entered = 0;  ///< stages of this call
    std::uint64_t begin_ns = 0, expected_ns = 0;
    std::uint64_t bytes = 0;     ///< of the moves
    std::uint64_t chunk_ns = 0;  ///< expected of the last moves that had any
    // Learned, and kept for later calls:
    double ns_a_byte = 1 / 55.0;  ///< at first that of a PCIe 5.0 link
    double wait_ns = 0;
  };
  static Time system_time();
  void begin_lanes();
  void enter(Lane lane, Stage stage, std::uint64_t bytes);
  void learn(LaneState& lane, std::uint64_t now_ns);
  std::uint64_t next_look_ns(std::uint64_t now_ns) const;
  void sleep();

  Time time_;
  bool sleeps_ = false;
  std::uint64_t slept_from_ns_ = 0;  ///< 0: a look since the last sleep was in vain
  std::uint64_t overslept_ns_ = 0;   ///< by this much a sleep is longer than asked for
  std::array<LaneState, lane_count> lanes_;
};

}  // namespace penstock::coll
