// One word of the pool for all windows of a process: a peer that sends a request to one of them
// rings it, after that window's own bell. So a process with many windows watches one line while it
// computes.
//
//   word 0   the last ring: low bits of the token of the process that rang, and a count of its
//   rings
//            of any bell
//
// All peers ring the same word. No value repeats, so the remaining value differs from the last one
// that the listener saw. The listener chooses lifetime and location of the line, which begins as
// zeros.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "pool/pool.hpp"

namespace penstock::window {

class ProcessBell {
 public:
  /// `offset`: of a line in the pool, zeroed and published.
  ProcessBell(const pool::Pool& pool, std::uint64_t offset) : pool_(&pool), offset_(offset) {}

  /// True if it was rung since the last call. Later loads find publishes made before the ring. One
  /// device access.
  bool rung() {
    const std::uint64_t ring = pool_->memory().observe_word(pool_->base() + offset_);
    return std::exchange(last_ring_, ring) != ring;
  }

  /// Rings the bell of another process, by its offset; no effect if there is none. The caller has
  /// ordered the request before it.
  static void ring(const pool::Pool& pool, std::uint64_t offset) {
    static std::atomic<std::uint64_t> rings{0};
    void* const bell = pool.at(offset, sizeof(std::uint64_t));
    if (offset == 0 || offset % coherence::line_bytes != 0 || bell == nullptr) return;
    // slot, and bits of the generation: a slot's next owner begins to count anew
    constexpr unsigned count_bits = 40;
    const std::uint64_t ring = pool.token() << count_bits | ++rings;
    pool.memory().publish_word(bell, ring);  // pairs with rung()
    pool.memory().store_fence();
  }

 private:
  const pool::Pool* pool_;
  std::uint64_t offset_;
  std::uint64_t last_ring_ = 0;
};

}  // namespace penstock::window
