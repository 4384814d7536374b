// A thread that answers peers' requests to windows (src/window/exposure.hpp) while the program
// computes or is in other libraries' calls. It never calls the MPI.
#pragma once

#include "windows.hpp"

namespace penstock::mpi {

/// Serves the window until end_progress(). Requires window.guarded.
void serve(PoolWindow& window);
void end_progress(PoolWindow& window);
/// Stops serving all windows, before the pool is detached.
void end_all_progress();

}  // namespace penstock::mpi
