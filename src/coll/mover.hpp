// Who moves the data of a call instead of the thread that keeps the protocol: a GPU's streams.
#pragma once

#include <cstddef>

#include "base/status.hpp"
#include "coll/schedule.hpp"

namespace penstock::coll {

/// Moves the data of one call by its LaneProgram: publishes into the chunks' slots, reads from
/// there, reduces. Ordering: what it has moved when is_done() says so is in memory or in this
/// host's caches; it begins to read only what allow() has named, which no cache of this host holds
/// an older copy of.
class Mover {
 public:
  virtual ~Mover() = default;
  /// The waits of a segment that has a gate are over.
  virtual void allow(Lane lane, std::size_t segment) = 0;
  /// What a segment that has a mark moves, and all before it in its lane, is moved.
  virtual bool is_done(Lane lane, std::size_t segment) = 0;
  /// For a call that goes on by a thread of the host: copies between the call's buffers and memory
  /// of the host. Of the lane that writes all is done; what is stored, the other lane does not
  /// touch any more. Over when they return. Errors: what the GPU says.
  virtual Result<void> fetch(std::byte* to, const Span& from) = 0;
  virtual Result<void> store(const Span& to, const std::byte* from) = 0;
};

}  // namespace penstock::coll
