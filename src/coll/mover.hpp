// Moves the data of a call in place of the thread that runs the protocol; for example, a GPU's
// streams.
#pragma once

#include <cstddef>

#include "base/status.hpp"
#include "schedule/schedule.hpp"

namespace penstock::coll {

/// Moves the data of one call by its LaneProgram: publishes into the chunks' slots, reads from
/// there, reduces. Ordering: data moved before is_done() returns true is in memory or in this
/// host's caches. The mover reads only data that allow() has released; no cache of this host holds
/// an older copy of it.
class Mover {
 public:
  virtual ~Mover() = default;
  /// The waits of a segment that has a gate are over.
  virtual void allow(Lane lane, std::size_t segment) = 0;
  /// True if all moves up to the end of a segment that has a mark are done in its lane.
  virtual bool is_done(Lane lane, std::size_t segment) = 0;
  /// Whether it moves in the order of LaneProgram::events, and the program may end once it has:
  /// then all that other ranks wait for is published before the last gate of a program that ends
  /// quietly.
  virtual bool ends_call() const { return false; }
  /// Copy between the call's buffers and host memory, for a call that a host thread completes. The
  /// writing lane is done. The other lane no longer touches stored data. Done on return. Errors:
  /// those that the GPU reports.
  virtual Result<void> fetch(std::byte* to, const Span& from) = 0;
  virtual Result<void> store(const Span& to, const std::byte* from) = 0;
};

}  // namespace penstock::coll
