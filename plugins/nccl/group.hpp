// ncclGroupStart and ncclGroupEnd. Calls between them are collected, and begin together at the end
// of the outermost group, each in the context of a GPU that was current when it was made. If a
// group has calls of several communicators, each communicator gets a thread, since one may have to
// wait for progress of another.
#pragma once

#include <functional>
#include <vector>

#include "nccl/abi.hpp"
#include "nccl/point_to_point.hpp"

namespace penstock::nccl {

/// Begins `body` now, or at the end of this thread's group (ncclComm::begin). The calls of one
/// `comm` run in order; a call with null is independent of all others. `waits`: the body waits for
/// other ranks even with a GPU.
Result in_group(Comm comm, std::function<Result()> body, bool waits = false);
/// The same for a message. The messages of one communicator in a group proceed concurrently.
Result in_group(Comm comm, const Transfer& transfer);

/// Records a refused call. In a group, no call of the group starts, and the group ends with this
/// error. Returns `refused`.
Result refused_in_group(Result refused);

void start_group();
/// Ends this thread's group. Returns the first error of its calls; else in_progress if some of them
/// do not block.
Result end_group(const char* call);
/// If this thread's group has calls of the communicator, defers its destruction until after them
/// and returns true.
bool destroy_after_group(Comm comm);
/// Drops this thread's grouped calls on the communicator, because it ends.
void forget_in_group(Comm comm);
/// Drops all calls of this thread's group.
Result drop_group();

}  // namespace penstock::nccl
