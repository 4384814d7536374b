// Hardware mode: caches are coherent between all attached processes. Release stores, acquire loads,
// no flush. The table's functions keep the order "payload, then last word or tag" with a release
// store.
#include <atomic>

#include "coherence/plain_ops.hpp"

namespace penstock::coherence {
namespace {

/// Not the table's 64-byte store: between coherent caches nothing promises that it moves whole.
void publish_line(void*, void* to, const void* from) {
  struct Words {
    std::uint64_t at[8];
  };
  Words line;
  __builtin_memcpy(&line, from, sizeof line);
  auto* words = static_cast<std::uint64_t*>(to);
  __builtin_memcpy(words, line.at, tagged_bytes);
  __atomic_store_n(words + 7, line.at[7], __ATOMIC_RELEASE);
}

/// Past the caches from 16 KB on (decision 0026): what another core reads is in memory sooner than
/// in this core's cache, where the two are far apart, and the reader's prefetch works.
void publish_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t past_caches = 16384;
  if (bytes < past_caches) return table(self).store_copy(to, from, bytes);
  table(self).nt_copy(to, from, bytes);
  table(self).store_fence();  // what this mode orders by does not order such stores
}

void load_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  table(self).store_copy(to, from, bytes);
  std::atomic_thread_fence(std::memory_order_acquire);
}

}  // namespace

constexpr Ops hardware_ops = [] {
  Ops ops = plain_ops();
  ops.publish_line = publish_line;
  ops.publish_bulk = publish_bulk;
  ops.send_line = publish_line;
  ops.stream_line = publish_line;
  ops.load_bulk = load_bulk;
  ops.store_fence = [](void*) { std::atomic_thread_fence(std::memory_order_release); };
  ops.load_fence = [](void*) { std::atomic_thread_fence(std::memory_order_acquire); };
  ops.full_fence = [](void*) { std::atomic_thread_fence(std::memory_order_seq_cst); };
  return ops;
}();

}  // namespace penstock::coherence
