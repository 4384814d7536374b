// Waits by polling: spins, then yields, then sleeps. A pool raises no interrupt, so the kernel has
// no event that could wake a thread.
#pragma once

#include <rdma/fi_eq.h>

#include "base/wait.hpp"

namespace penstock::ofi {

struct Domain;

/// Makes the waiter of fi_..._sread and _wait. `timeout_ms`: milliseconds; negative waits forever;
/// must not be 0, which does not wait.
base::Waiter waiter_for(const char* what, int timeout_ms, const Domain& domain);

/// True if a queue or counter may be opened with this wait object; else logs why not.
bool can_wait_by(fi_wait_obj object, const char* of_what);
/// FI_GETWAITOBJ and FI_GETWAIT of fi_control.
int control_wait_object(fi_wait_obj object, int command, void* argument);

}  // namespace penstock::ofi
