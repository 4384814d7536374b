// Pools that a process leaves because it ends.
#pragma once

namespace penstock::pool {

/// From now on the memory of a pool that is destroyed stays mapped: other threads, which end only
/// with the process, may still load from it.
void stay_mapped();

}  // namespace penstock::pool
