// A thread that answers what peers ask of windows (src/window/exposure.hpp) while the program is
// elsewhere: computing, or in calls that are not ours. It calls nothing of the MPI.
#pragma once

#include "windows.hpp"

namespace penstock::mpi {

/// From now on, until it ends. `window` is guarded.
void serve(PoolWindow& window);
void end_progress(PoolWindow& window);
/// Stops it for all windows, before the pool is detached.
void end_all_progress();

}  // namespace penstock::mpi
