// A record of the steps of this process's ranks, for `penstock timeline`. Steps go into
// preallocated memory, and into a file when the process ends. Without PENSTOCK_TRACE there is no
// record, and a step costs one comparison.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace penstock::coll {

/// One step of one lane of a rank, or several that were done together.
struct TraceSpan {
  static constexpr std::uint16_t no_device = 0xffff;

  std::uint64_t begin_ns = 0, end_ns = 0;
  std::uint64_t bytes = 0;         ///< moved to or from the pool, or within the rank
  std::uint32_t communicator = 0;  ///< identifies the communicator; the same on all its ranks
  std::uint32_t number = 0;        ///< of the collective in the communicator, from 1
  std::uint32_t rank = 0;
  std::uint32_t peer = 0;   ///< the rank that the step concerns; the first of several
  std::uint32_t chunk = 0;  ///< the first of several
  std::uint16_t device = no_device;
  StepKind kind = StepKind::move;
  Lane lane = Lane::read;
};
static_assert(sizeof(TraceSpan) == 48);

const char* name_of(StepKind kind);

class Trace {
 public:
  static constexpr std::size_t usual_capacity = 1 << 16;

  /// The trace of this process, made at the first call; null if PENSTOCK_TRACE is not set.
  static Trace* of_process();

  Trace(std::string folder, std::size_t capacity);
  /// Writes the spans, unless there are none or this is a forked child of its owner.
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Adds a span. If the memory is full, the span is counted but dropped. Any thread.
  void add(const TraceSpan& span) {
    const std::size_t at = count_.fetch_add(1, std::memory_order_relaxed);
    if (at < spans_.size()) spans_[at] = span;
  }
  /// Writes a new file in the folder: a line of JSON about the process, then one line for each
  /// span. Returns its path. Errors: permission.
  Result<std::string> write() const;

 private:
  const std::string folder_;
  const pid_t owner_;
  std::vector<TraceSpan> spans_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace penstock::coll
