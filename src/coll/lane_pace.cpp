#include "coll/lane_pace.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "base/clock.hpp"

namespace penstock::coll {

LanePace::Time LanePace::system_time() {
  return {base::now_ns,
          [](std::uint64_t ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }};
}

void LanePace::begin_lanes() {
  const std::uint64_t now = time_.now_ns();
  slept_from_ns_ = 0;
  for (LaneState& lane : lanes_) {
    lane.stage = Stage::waits;
    lane.entered = 0;
    lane.begin_ns = now;
    lane.expected_ns = 0;
  }
}

void LanePace::enter(Lane which, Stage stage, std::uint64_t bytes) {
  LaneState& lane = lanes_[static_cast<std::size_t>(which)];
  const std::uint64_t now = time_.now_ns();
  learn(lane, now);
  lane.stage = stage;
  lane.begin_ns = now;
  ++lane.entered;
  lane.bytes = bytes;
  const double expected =
      stage == Stage::moves ? lane.ns_a_byte * static_cast<double>(bytes) : lane.wait_ns;
  lane.expected_ns = static_cast<std::uint64_t>(expected);
  if (bytes != 0) lane.chunk_ns = lane.expected_ns;
}

/// The first wait and the first moves of a call teach nothing: other ranks come late, and the
/// program's stream may be busy. A chunk that is there when the thread wakes up may have come long
/// before.
void LanePace::learn(LaneState& lane, std::uint64_t now_ns) {
  constexpr std::uint32_t first_stages = 2;
  if (lane.entered < first_stages || lane.stage == Stage::done) return;
  if (lane.stage == Stage::moves) overslept_ns_ -= overslept_ns_ / 128;  // tries again to sleep
  const bool has_slept = slept_from_ns_ >= lane.begin_ns;
  const std::uint64_t most = now_ns - lane.begin_ns;
  const std::uint64_t least = has_slept ? slept_from_ns_ - lane.begin_ns : most;
  const bool was_early = has_slept && least <= lane.expected_ns;
  const double took =
      static_cast<double>(was_early ? std::min(most, lane.expected_ns) / 16 * 15 : least);
  if (lane.stage == Stage::moves) {
    constexpr double least_ns_a_byte = 1 / 1000.0;
    if (lane.bytes != 0)
      lane.ns_a_byte =
          std::clamp(took / static_cast<double>(lane.bytes), least_ns_a_byte, lane.ns_a_byte * 2);
    return;
  }
  // A rank that comes late once makes no later wait longer than a chunk.
  const double wait = std::min(took, static_cast<double>(lane.chunk_ns));
  lane.wait_ns += (wait - lane.wait_ns) * (was_early ? 1 : 1 / 8.0);
}

/// Just before what is awaited in a lane is expected. When it is late, an eighth of the delay so
/// far may pass between two looks.
std::uint64_t LanePace::next_look_ns(std::uint64_t now_ns) const {
  std::uint64_t next = std::numeric_limits<std::uint64_t>::max();
  for (const LaneState& lane : lanes_) {
    if (lane.stage == Stage::done) continue;
    const std::uint64_t expected = lane.chunk_ns < shortest_chunk_ns ? 0 : lane.expected_ns;
    const std::uint64_t waited = now_ns - lane.begin_ns, early = expected - expected / 24;
    const std::uint64_t delay = waited - std::min(waited, expected);
    next = std::min(next, waited < early ? lane.begin_ns + early : now_ns + delay / 8);
  }
  return next;
}

void LanePace::sleep() {
  constexpr std::uint64_t shortest_ns = 2'000;
  const std::uint64_t now = time_.now_ns();
  const std::uint64_t ns = std::min(next_look_ns(now) - now, longest_ns);
  slept_from_ns_ = 0;
  if (ns < overslept_ns_ + shortest_ns) return;
  slept_from_ns_ = now;
  const std::uint64_t asked = ns - overslept_ns_;
  time_.sleep(asked);
  const std::uint64_t took = std::clamp(time_.now_ns() - now, asked, asked + longest_ns);
  const std::uint64_t excess = took - asked;
  if (excess > overslept_ns_)
    overslept_ns_ += (excess - overslept_ns_) / 2;
  else
    overslept_ns_ -= (overslept_ns_ - excess) / 8;
}

}  // namespace penstock::coll
