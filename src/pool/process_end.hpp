// Pools of a process that is ending.
#pragma once

namespace penstock::pool {

/// From now on the memory of a destroyed pool stays mapped: other threads end only with the process
/// and may still load from it.
void stay_mapped();

}  // namespace penstock::pool
