// A thread that answers peers' requests to windows (src/window/exposure.hpp) while the program
// computes, or is in calls that are not ours. It never calls the MPI.
#pragma once

#include "windows.hpp"

namespace penstock::mpi {

/// Serves the window until end_progress(). `window` is guarded.
void serve(PoolWindow& window);
void end_progress(PoolWindow& window);
/// Stops it for all windows, before the pool is detached.
void end_all_progress();

}  // namespace penstock::mpi
