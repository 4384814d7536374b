// Operations on memory that needs nothing special: the CPU's plain stores and loads, no write-back,
// no invalidation. Each mode begins with this table and replaces what it does differently.
#pragma once

#include "coherence/binding.hpp"

namespace penstock::coherence {

constexpr Ops plain_ops() {
  return {
      .publish_word =
          [](void*, void* to, std::uint64_t value) {
            __atomic_store_n(static_cast<std::uint64_t*>(to), value, __ATOMIC_RELEASE);
          },
      .publish_bytes = [](void* self, void* to, const void* from,
                          std::size_t bytes) { table(self).store_copy(to, from, bytes); },
      .publish_line = [](void* self, void* to,
                         const void* from) { table(self).store_line(to, from); },
      .send_line = [](void* self, void* to, const void* from) { table(self).store_line(to, from); },
      .publish_bulk = [](void* self, void* to, const void* from,
                         std::size_t bytes) { table(self).store_copy(to, from, bytes); },
      .publish_tagged =
          [](void* self, void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
            table(self).store_tagged(to, from, bytes, first_tag);
          },
      .stream_line = [](void* self, void* to,
                        const void* from) { table(self).store_line(to, from); },
      .stream_tagged =
          [](void* self, void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
            table(self).store_tagged(to, from, bytes, first_tag);
          },
      .write_back = [](void*, const void*, std::size_t) {},
      .store_fence = [](void* self) { table(self).store_fence(); },
      .invalidate = [](void*, const void*, std::size_t) {},
      .fetch = [](void*, const void*, std::size_t) {},
      .load_fence = [](void* self) { table(self).full_fence(); },
      .load_word = [](void*, const void* from) -> std::uint64_t {
        return __atomic_load_n(static_cast<const std::uint64_t*>(from), __ATOMIC_ACQUIRE);
      },
      .load_line = [](void* self, void* to, const void* from) { table(self).load_line(to, from); },
      .load_bulk =
          [](void* self, void* to, const void* from, std::size_t bytes) {
            compiler_barrier();
            table(self).store_copy(to, from, bytes);
            compiler_barrier();
          },
      .load_tagged =
          [](void* self, void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
            return table(self).load_tagged(to, from, bytes, first_tag);
          },
      .full_fence = [](void* self) { table(self).full_fence(); },
      .device_reads = [](void* self) -> std::uint64_t {
        return __atomic_load_n(&binding(self).device_reads, __ATOMIC_RELAXED);
      },
  };
}

}  // namespace penstock::coherence
