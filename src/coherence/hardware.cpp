// Coherent between all who attach: release stores, acquire loads, no flush. The table's functions
// keep the order "payload, then last word or seal" with a release store.
#include <atomic>

#include "coherence/binding.hpp"

namespace penstock::coherence {
namespace {

void publish_word(void*, void* to, std::uint64_t value) {
  __atomic_store_n(static_cast<std::uint64_t*>(to), value, __ATOMIC_RELEASE);
}

/// Not the table's 64-byte store: between coherent caches nothing promises that it moves whole.
void publish_line(void*, void* to, const void* from) {
  struct Words {
    std::uint64_t at[8];
  };
  Words line;
  __builtin_memcpy(&line, from, sizeof line);
  auto* words = static_cast<std::uint64_t*>(to);
  __builtin_memcpy(words, line.at, sealed_bytes);
  __atomic_store_n(words + 7, line.at[7], __ATOMIC_RELEASE);
}

void publish_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  table(self).store_copy(to, from, bytes);
}

void publish_sealed(void* self, void* to, const void* from, std::size_t bytes,
                    std::uint64_t first_seal) {
  table(self).store_sealed(to, from, bytes, first_seal);
}

void write_back(void*, const void*, std::size_t) {}
void order(void*) {
  std::atomic_thread_fence(std::memory_order_release);
}
void full_order(void*) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
void invalidate(void*, const void*, std::size_t) {}
void settle(void*) {
  std::atomic_thread_fence(std::memory_order_acquire);
}

std::uint64_t load_word(void*, const void* from) {
  return __atomic_load_n(static_cast<const std::uint64_t*>(from), __ATOMIC_ACQUIRE);
}

void load_line(void* self, void* to, const void* from) {
  table(self).load_line(to, from);
}

void load_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  table(self).store_copy(to, from, bytes);
  std::atomic_thread_fence(std::memory_order_acquire);
}

std::size_t load_sealed(void* self, void* to, const void* from, std::size_t bytes,
                        std::uint64_t first_seal) {
  return table(self).load_sealed(to, from, bytes, first_seal);
}

}  // namespace

constexpr Ops hardware_ops = {
    .publish_word = publish_word,
    .publish_line = publish_line,
    .publish_bulk = publish_bulk,
    .publish_sealed = publish_sealed,
    .write_back = write_back,
    .order = order,
    .invalidate = invalidate,
    .settle = settle,
    .load_word = load_word,
    .load_line = load_line,
    .load_bulk = load_bulk,
    .load_sealed = load_sealed,
    .full_order = full_order,
};

}  // namespace penstock::coherence
