// One word of the pool for all windows of a process: who has asked something of one of them rings
// it, after that window's own bell. So a process of many windows reads one line while it computes.
//
//   word 0   the last ring: low bits of the token of the process that rang, and how often it had
//            rung any bell before
//
// All that ask ring the same word. No value comes twice, so the one that remains differs from what
// the listener saw last. The line is of lifetime and place of the listener's choice; it begins as
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

  /// Has it been rung since the last call? What was published before a ring is found from then on.
  /// One device access.
  bool rung() {
    const std::uint64_t ring = pool_->memory().observe_word(pool_->base() + offset_);
    return std::exchange(heard_, ring) != ring;
  }

  /// Rings that of another process, by its offset; nothing where that is none. What it tells of was
  /// ordered before.
  static void ring(const pool::Pool& pool, std::uint64_t offset) {
    static std::atomic<std::uint64_t> rings{0};
    void* const bell = pool.at(offset, sizeof(std::uint64_t));
    if (offset == 0 || offset % coherence::line_bytes != 0 || bell == nullptr) return;
    // Slot, and bits of the generation: a slot's next owner begins to count anew.
    constexpr unsigned count_bits = 40;
    const std::uint64_t ring = pool.token() << count_bits | ++rings;
    pool.memory().publish_word(bell, ring);  // pairs with rung
    pool.memory().store_fence();
  }

 private:
  const pool::Pool* pool_;
  std::uint64_t offset_;
  std::uint64_t heard_ = 0;
};

}  // namespace penstock::window
