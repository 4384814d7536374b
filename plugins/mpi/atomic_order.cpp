#include "atomic_order.hpp"

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::mpi {

namespace {

/// After so many bytes a warning tells the user how to avoid the work.
constexpr std::uint64_t unnoticed_bytes = 4ull << 30;

void warn_of_cost(std::uint64_t bytes) {
  static std::atomic<std::uint64_t> gone_through{0};
  const std::uint64_t before = gone_through.fetch_add(bytes);
  if (before >= unnoticed_bytes || before + bytes < unnoticed_bytes) return;
  base::log(base::Level::warn,
            "atomic operations have gone through {} of windows that this rank never synchronizes, "
            "so that its plain loads find what others put there; MPI_Win_sync round such loads, "
            "or PENSTOCK_WINDOW_MODEL=unified, may be faster",
            base::format_bytes(unnoticed_bytes));
}

}  // namespace

void publish_unsynchronized() {
  for_each_window([](PoolWindow& window) {
    if (!window.with_atomics.load(std::memory_order_relaxed)) return;
    const Entered entered(window);
    window.core->publish_own();
  });
}

void observe_unsynchronized() {
  std::uint64_t bytes = 0;
  for_each_window([&](PoolWindow& window) {
    if (!window.with_atomics.load(std::memory_order_relaxed)) return;
    const Entered entered(window);
    bytes += window.core->observe_own();
  });
  warn_of_cost(bytes);
}

}  // namespace penstock::mpi
