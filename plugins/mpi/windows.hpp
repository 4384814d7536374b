// Windows that lie in the pool. Each has a window of the MPI behind it, which nothing is put
// through: it is the handle, with its attributes, name, info and error handler.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "abi.hpp"
#include "attachment.hpp"
#include "penstock/window.hpp"

namespace penstock::mpi {

struct PoolWindow {
  Handle handle = 0;
  Handle group = 0;  ///< of its communicator
  std::unique_ptr<window::Window> core;
  std::vector<std::int64_t> units;  ///< displacement units, by rank
  // what MPI_Win_get_attr says
  void* base = nullptr;
  Aint size = 0;
  int unit = 1, flavor = 0, model = 0;
  std::vector<arena::Object> objects;  ///< that this rank gives back when all have left

  /// Several threads of the program, or ours that serves peers (service.hpp), may come here. Given
  /// up while another rank is waited for.
  bool guarded = false;
  std::mutex mutex;
  std::atomic<std::uint32_t> waiting{0};  ///< threads, for the mutex
  std::uint32_t idle_calls = 0;

  /// Lets those in that wait, by the thread that has the mutex.
  void let_others_in();
};

/// While a call works on a window.
class Entered {
 public:
  explicit Entered(PoolWindow& window) : window_(window) {
    if (!window_.guarded || window_.mutex.try_lock()) return;
    window_.waiting.fetch_add(1);
    window_.mutex.lock();
    window_.waiting.fetch_sub(1);
  }
  ~Entered() {
    if (window_.guarded) window_.mutex.unlock();
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  PoolWindow& window_;
};

/// How many there are; none, as a rule, in programs that do not use them.
extern std::atomic<std::uint32_t> pool_windows;
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
/// Out of the table; its owner is the caller.
std::unique_ptr<PoolWindow> take_window(Handle win);

}  // namespace penstock::mpi
