// Orders the memory of windows by atomic operations. A program that counts on the unified memory
// model puts into one window and announces that by an atomic operation, mostly in another window;
// then the owner loads the data plainly. Or the owner stores plainly and announces its stores. So
// three kinds of call write this rank's stores back and drop its cached copies, as collective calls
// do: atomic operations that return a value, MPI_Win_sync, and locks of the rank's own segment.
// They do so for all windows that the rank has never synchronized itself, unless others reach too
// much of them (docs/decisions/0042).
#pragma once

#include "windows.hpp"

namespace penstock::mpi {

void publish_unsynchronized();
void observe_unsynchronized();

/// With more windows than this, a rank's own locks and MPI_Win_sync order no other windows: going
/// through all of them would take too long.
inline constexpr std::uint32_t few_windows = 64;

/// Makes `call` between the two above. The caller is inside no window.
template <class Call>
int in_order(const Call& call) {
  if (windows_with_atomics.load(std::memory_order_relaxed) == 0) [[likely]]
    return call();
  publish_unsynchronized();
  const int done = call();
  observe_unsynchronized();
  return done;
}

/// This rank has synchronized the window itself, so it knows the separate memory model.
inline void note_synchronized(PoolWindow& window) {
  if (window.with_atomics.load(std::memory_order_relaxed)) end_order_by_atomics(window);
}

}  // namespace penstock::mpi
