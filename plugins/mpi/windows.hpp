// Windows that lie in the pool. Each has a window of the MPI behind it, which nothing is put
// through: it is the handle, with its attributes, name, info and error handler.
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
  Handle group = 0;  ///< of its communicator
  /// Where the MPI is asked to go on: MPI_COMM_WORLD, or in programs of MPI's sessions, which lack
  /// it, one of our own.
  std::atomic<Handle> self = 0;
  bool owns_self = false;
  std::unique_ptr<window::Window> core;
  std::vector<std::int64_t> units;  ///< displacement units, by rank
  // values for MPI_Win_get_attr
  void* base = nullptr;
  Aint size = 0;
  int unit = 1, flavor = 0, model = 0;
  bool with_collectives = false;  ///< its memory is synchronized by them (collectives.hpp)
  /// Likewise by atomic operations of any window, until this rank synchronizes its loads and stores
  /// itself, as the separate memory model asks (atomic_order.hpp).
  std::atomic<bool> with_atomics{false};
  std::vector<arena::Object> objects;    ///< objects that this rank gives back when all have left
  std::vector<WordMemory::Piece> words;  ///< likewise, once no rank looks at them any more

  /// `mutex` serializes threads of the program and our progress thread (progress_thread.hpp). A
  /// thread that waits for another rank lets the others in.
  bool guarded = false, has_threads = false;
  base::HandoverMutex mutex;
  /// Set by the progress thread when it finds the window in use. It does not wait for a turn, so a
  /// program with one call after the other could shut it out for seconds: the running call looks.
  std::atomic<bool> look_due{false};

  void let_others_in() {
    if (!guarded) return;
    if (has_threads) core->store_fence();
    mutex.let_in();
  }
};

/// Held while a call works on a window.
class Entered {
 public:
  explicit Entered(PoolWindow& window) : window_(window) {
    if (window_.guarded) window_.mutex.lock();
  }
  ~Entered() {
    // Only windows that may be asked are in service, so only theirs are ever due.
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
/// Those of them that have PoolWindow::with_atomics.
extern std::atomic<std::uint32_t> windows_with_atomics;
PoolWindow* look_up_window(Handle win);
/// Null: not one of ours. `win` as it came in a register.
inline PoolWindow* pool_window(Handle win) {
  if (pool_windows.load(std::memory_order_acquire) == 0) return nullptr;
  return look_up_window(incoming(win));
}
inline bool is_pool_window(Handle win) {
  return pool_window(win) != nullptr;
}

void add_window(std::unique_ptr<PoolWindow> window);
/// True if there are windows of MPI sessions, which outlive MPI_Finalize.
bool have_windows_of_sessions();
/// This rank synchronizes the window itself.
void end_order_by_atomics(PoolWindow& window);
void for_each_window(const std::function<void(PoolWindow&)>& call);
/// Removes it from the table; the caller owns it.
std::unique_ptr<PoolWindow> take_window(Handle win);
std::vector<std::unique_ptr<PoolWindow>> take_all_windows();
/// Of a window that not all ranks have left: what others may still store to stays until the job has
/// ended. This rank's own stores there are at the device. Its words stay by themselves
/// (WordMemory).
void defer_reclaim(const PoolWindow& window, PoolMemory& memory);

}  // namespace penstock::mpi
