// Orders the memory of windows by atomic operations. A program that relies on the unified memory
// model puts into one window and announces that by an atomic operation, usually in another window;
// then the owner reads the data by plain loads. Or the owner uses plain stores and announces them.
// So three kinds of call write this rank's stores back and drop its cached copies, as collective
// calls do: atomic operations that return a value, MPI_Win_sync, and locks of the rank's own
// segment. They cover all windows that the rank has never synchronized itself, except those of
// which peers reach too many bytes (docs/decisions/0042).
#pragma once

#include "windows.hpp"

namespace penstock::mpi {

void publish_unsynchronized();
void observe_unsynchronized();

/// With more windows than this, locks of the own segment and MPI_Win_sync order no other windows:
/// that would take too long.
inline constexpr std::uint32_t few_windows = 64;

/// Makes `call` between publish_unsynchronized() and observe_unsynchronized(). The caller holds no
/// window's lock.
template <class Call>
int in_order(const Call& call) {
  if (windows_with_atomics.load(std::memory_order_relaxed) == 0) [[likely]]
    return call();
  publish_unsynchronized();
  const int done = call();
  observe_unsynchronized();
  return done;
}

/// Notes that this rank has synchronized the window itself: the program uses the separate memory
/// model there.
inline void note_synchronized(PoolWindow& window) {
  if (window.with_atomics.load(std::memory_order_relaxed)) end_order_by_atomics(window);
}

}  // namespace penstock::mpi
