// ncclGroupStart and ncclGroupEnd: calls between them are kept, and begun together at the end of
// the outermost group. Those of several communicators of this thread each by a thread of its own,
// since one may have to wait until others go on.
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
/// The same of a message; those of a group and a communicator go on side by side.
Result in_group(Comm comm, const Transfer& transfer);

/// Of a call that was refused: where it stands in a group, the group starts nothing and ends with
/// this error. Returns `refused`.
Result refused_in_group(Result refused);

void start_group();
/// The first error of its calls; without an error in_progress if some of them do not block.
Result end_group(const char* call);
/// True: this thread's group has calls of the communicator, which is destroyed after them.
bool destroy_after_group(Comm comm);
/// Forgets the calls of this thread's group on the communicator, which ends.
void forget_in_group(Comm comm);
/// Forgets the calls of this thread's group.
Result drop_group();

}  // namespace penstock::nccl
