// The mapping itself is uncacheable: stores go out by themselves, loads always ask the device.
#include "coherence/binding.hpp"

namespace penstock::coherence {
namespace {

void publish_word(void*, void* to, std::uint64_t value) {
  __atomic_store_n(static_cast<std::uint64_t*>(to), value, __ATOMIC_RELEASE);
}

void publish_line(void* self, void* to, const void* from) {
  table(self).store_line(to, from);
}

void publish_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  table(self).store_copy(to, from, bytes);
}

void publish_sealed(void* self, void* to, const void* from, std::size_t bytes,
                    std::uint64_t first_seal) {
  table(self).store_sealed(to, from, bytes, first_seal);
}

void write_back(void*, const void*, std::size_t) {}
/// A mapping that combines writes (PAT WC) holds them back until a fence.
void order(void* self) {
  table(self).store_fence();
}
void full_order(void* self) {
  table(self).full_fence();
}
void invalidate(void*, const void*, std::size_t) {}
/// Loads of a mapping that combines writes may run ahead; beside an uncached access it costs
/// little.
void settle(void* self) {
  table(self).full_fence();
}

std::uint64_t load_word(void*, const void* from) {
  return __atomic_load_n(static_cast<const std::uint64_t*>(from), __ATOMIC_ACQUIRE);
}

void load_line(void* self, void* to, const void* from) {
  table(self).load_line(to, from);
}

void load_bulk(void* self, void* to, const void* from, std::size_t bytes) {
  compiler_barrier();
  table(self).store_copy(to, from, bytes);
  compiler_barrier();
}

std::size_t load_sealed(void* self, void* to, const void* from, std::size_t bytes,
                        std::uint64_t first_seal) {
  return table(self).load_sealed(to, from, bytes, first_seal);
}

}  // namespace

constexpr Ops uncached_ops = {
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
