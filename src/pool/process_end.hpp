// Pools that are left because the process ends.
#pragma once

namespace penstock::pool {

/// From now on the memory of a pool that is destroyed stays mapped: other threads, which end with
/// the process, may go on to load from it.
void stay_mapped();

}  // namespace penstock::pool
