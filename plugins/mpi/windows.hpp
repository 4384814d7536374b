// Windows in the pool. Behind each is a window of the MPI, which carries no data: it provides the
// handle, attributes, name, info and error handler.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "abi.hpp"
#include "attachment.hpp"
#include "base/handover_mutex.hpp"
#include "window/window.hpp"
#include "word_memory.hpp"

namespace penstock::mpi {

struct PoolWindow {
  Handle handle = 0;
  Handle group = 0;  ///< the communicator's group
  /// The communicator to probe so that the MPI makes progress: MPI_COMM_WORLD or, in programs that
  /// use only MPI sessions, one of our own.
  std::atomic<Handle> self = 0;
  bool owns_self = false;
  std::unique_ptr<window::Window> core;
  std::vector<std::int64_t> units;  ///< displacement units, by rank
  // values for MPI_Win_get_attr
  void* base = nullptr;
  Aint size = 0;
  int unit = 1, flavor = 0, model = 0;
  bool with_collectives = false;  ///< collective calls synchronize its memory (collectives.hpp)
  /// Atomic operations on any window synchronize its memory too, until this rank synchronizes it
  /// itself, as the separate memory model requires (atomic_order.hpp).
  std::atomic<bool> with_atomics{false};
  std::vector<arena::Object> objects;    ///< freed by this rank when all ranks have left
  std::vector<WordMemory::Piece> words;  ///< freed when no rank reads them any more

  /// `guarded`: `mutex` serializes the program's threads and our progress thread
  /// (progress_thread.hpp). A thread that waits for another rank lets other threads in.
  bool guarded = false, has_threads = false;
  base::HandoverMutex mutex;
  /// Set by the progress thread when it finds the window in use: the running call then serves
  /// requests when it ends. The thread does not wait for the mutex, so a program with back-to-back
  /// calls could keep it out for seconds.
  std::atomic<bool> look_due{false};

  void let_others_in() {
    if (!guarded) return;
    if (has_threads) core->store_fence();
    mutex.let_in();
  }
};

/// Locks a window for a call.
class Entered {
 public:
  explicit Entered(PoolWindow& window) : window_(window) {
    if (window_.guarded) window_.mutex.lock();
  }
  ~Entered() {
    // Only set for windows that the progress thread serves.
    if (window_.look_due.load(std::memory_order_relaxed)) [[unlikely]]
      look();
    if (window_.has_threads) window_.core->store_fence();
    if (window_.guarded) window_.mutex.unlock();
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  void look() {
    window_.look_due.store(false, std::memory_order_relaxed);
    window_.core->serve();
  }

  PoolWindow& window_;
};

/// Number of windows in the pool; 0 in programs that use none.
extern std::atomic<std::uint32_t> pool_windows;
/// Number of windows with PoolWindow::with_atomics.
extern std::atomic<std::uint32_t> windows_with_atomics;
PoolWindow* look_up_window(Handle win);
/// The pool window of a handle as received in a register; null if the window is not ours.
inline PoolWindow* pool_window(Handle win) {
  if (pool_windows.load(std::memory_order_acquire) == 0) return nullptr;
  return look_up_window(incoming(win));
}
inline bool is_pool_window(Handle win) {
  return pool_window(win) != nullptr;
}

void add_window(std::unique_ptr<PoolWindow> window);
/// True if there are windows of MPI sessions. They outlive MPI_Finalize.
bool have_windows_of_sessions();
/// Clears PoolWindow::with_atomics: this rank synchronizes the window itself.
void end_order_by_atomics(PoolWindow& window);
void for_each_window(const std::function<void(PoolWindow&)>& call);
/// Removes the window from the table; the caller owns it.
std::unique_ptr<PoolWindow> take_window(Handle win);
std::vector<std::unique_ptr<PoolWindow>> take_all_windows();
/// Defers the reclaim of a window's memory until the job ends: not all ranks have left, and peers
/// may still store there. This rank's own stores must have reached the device. WordMemory defers
/// the reclaim of the words.
void defer_reclaim(const PoolWindow& window, PoolMemory& memory);

}  // namespace penstock::mpi
