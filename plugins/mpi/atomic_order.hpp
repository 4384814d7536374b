// Memory of windows, and atomic operations of the same window or another. Programs that count on
// the unified memory model put into one window, tell of it by an atomic operation, mostly in
// another window, and the owner loads plainly what was put; or it stores plainly and tells of that.
// So an atomic operation that returns a value, MPI_Win_sync and a rank's lock of its own segment
// write own stores back and drop copies, as collective calls do, of all windows whose own rank has
// never synchronized them (docs/decisions/0042).
#pragma once

#include "windows.hpp"

namespace penstock::mpi {

void publish_unsynchronized();
void observe_unsynchronized();

/// More windows than these are not gone through at a rank's own locks and MPI_Win_sync: a program
/// with so many would spend its time there.
inline constexpr std::uint32_t few_windows = 64;

/// The result of `call`, which holds no window.
template <class Call>
int in_order(const Call& call) {
  if (windows_with_atomics.load(std::memory_order_relaxed) == 0) [[likely]]
    return call();
  publish_unsynchronized();
  const int done = call();
  observe_unsynchronized();
  return done;
}

/// Its rank knows the separate memory model.
inline void note_synchronized(PoolWindow& window) {
  if (window.with_atomics.load(std::memory_order_relaxed)) end_order_by_atomics(window);
}

}  // namespace penstock::mpi
