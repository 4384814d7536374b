// A record of what this process's ranks did when, for `penstock timeline`: steps go into memory
// that was allocated before, and into a file when the process ends. Without PENSTOCK_TRACE there is
// none, and a step costs one comparison.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "coll/schedule.hpp"

namespace penstock::coll {

/// One step, or several that were done together, of one lane of a rank.
struct TraceSpan {
  static constexpr std::uint16_t no_device = 0xffff;

  std::uint64_t begin_ns = 0, end_ns = 0;
  std::uint64_t bytes = 0;         ///< that were moved to or from the pool, or within the rank
  std::uint32_t communicator = 0;  ///< a number of it; the same on all its ranks
  std::uint32_t number = 0;        ///< of the collective there, from 1
  std::uint32_t rank = 0;
  std::uint32_t peer = 0;   ///< the rank that it is about; of several the first
  std::uint32_t chunk = 0;  ///< of several the first
  std::uint16_t device = no_device;
  StepKind kind = StepKind::move;
  Lane lane = Lane::read;
};
static_assert(sizeof(TraceSpan) == 48);

const char* name_of(StepKind kind);

class Trace {
 public:
  static constexpr std::size_t usual_capacity = 1 << 16;

  /// Of this process, made when it is first asked for; null where PENSTOCK_TRACE is not set.
  static Trace* of_process();

  Trace(std::string folder, std::size_t capacity);
  /// Writes what there is, unless this is a child of who made it.
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Any thread. What comes when the memory is full is counted, and not kept.
  void add(const TraceSpan& span) {
    const std::size_t at = count_.fetch_add(1, std::memory_order_relaxed);
    if (at < spans_.size()) spans_[at] = span;
  }
  /// Into a file of the folder that no other process has: a line of JSON about the process, then
  /// one for each span. Returns its name. Errors: permission.
  Result<std::string> write() const;

 private:
  const std::string folder_;
  const pid_t owner_;
  std::vector<TraceSpan> spans_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace penstock::coll
