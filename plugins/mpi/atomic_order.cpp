#include "atomic_order.hpp"

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::mpi {

namespace {

/// Windows of which peers can reach more bytes are skipped: flushing them takes milliseconds, and
/// an atomic operation takes three microseconds.
constexpr std::uint64_t max_ordered_bytes = 64ull << 20;
/// After this many flushed bytes a warning tells the user how to avoid the work.
constexpr std::uint64_t unnoticed_bytes = 4ull << 30;

void warn_of_cost(std::uint64_t bytes) {
  static std::atomic<std::uint64_t> gone_through{0};
  const std::uint64_t before = gone_through.fetch_add(bytes);
  if (before >= unnoticed_bytes || before + bytes < unnoticed_bytes) return;
  base::log(base::Level::warn,
            "atomic operations have gone through {} of windows that this rank never synchronizes, "
            "so that its plain loads find what others put there; MPI_Win_sync round such loads, "
            "or PENSTOCK_WINDOW_MODEL=unified, may be faster; without such loads, "
            "PENSTOCK_WINDOW_MODEL=separate is",
            base::format_bytes(unnoticed_bytes));
}

void warn_of_size(std::uint64_t bytes) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  base::log(base::Level::warn,
            "other ranks reach {} of a window that this rank never synchronizes: more than {} are "
            "not ordered by atomic operations, so plain loads there may find old bytes; "
            "MPI_Win_sync round such loads or PENSTOCK_WINDOW_MODEL=unified is needed, and without "
            "such loads PENSTOCK_WINDOW_MODEL=separate leaves this out",
            base::format_bytes(bytes), base::format_bytes(max_ordered_bytes));
}

/// Makes `call` on each window that this rank never synchronized. Returns the bytes gone through.
std::uint64_t for_each_unsynchronized(void (window::Window::*call)()) {
  std::uint64_t all = 0;
  for_each_window([&](PoolWindow& window) {
    if (!window.with_atomics.load(std::memory_order_relaxed)) return;
    const Entered entered(window);
    const std::uint64_t bytes = window.core->bytes_to_observe();
    if (bytes > max_ordered_bytes) return warn_of_size(bytes);
    (window.core.get()->*call)();
    all += bytes;
  });
  return all;
}

}  // namespace

void publish_unsynchronized() {
  for_each_unsynchronized(&window::Window::publish_own);
}

void observe_unsynchronized() {
  warn_of_cost(for_each_unsynchronized(&window::Window::observe_own));
}

}  // namespace penstock::mpi
