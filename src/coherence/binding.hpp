// The data of the operations of one (mode, flush choice); it lives as long as the process.
#pragma once

#include "arch/arch.hpp"
#include "coherence/coherence.hpp"

namespace penstock::coherence {

struct Binding {
  const arch::Table* table;
  arch::RangeFn write_back;
  arch::RangeFn invalidate;
  alignas(line_bytes) std::uint64_t device_reads = 0;  ///< apart from what all threads only read
};

inline const Binding& binding(void* self) {
  return *static_cast<const Binding*>(self);
}
inline const arch::Table& table(void* self) {
  return *binding(self).table;
}

/// No atomic addition, which would cost every poll some 5 ns: of threads that count at the same
/// instant one may count for all.
inline void count_device_reads(void* self, const void* at, std::size_t bytes) {
  if (bytes == 0) return;
  std::uint64_t& count = static_cast<Binding*>(self)->device_reads;
  const std::uint64_t lines =
      (reinterpret_cast<std::uintptr_t>(at) % line_bytes + bytes - 1) / line_bytes + 1;
  __atomic_store_n(&count, __atomic_load_n(&count, __ATOMIC_RELAXED) + lines, __ATOMIC_RELAXED);
}

/// Keeps the compiler from moving accesses to the pool across; no instruction.
inline void compiler_barrier() {
  asm volatile("" : : : "memory");
}

extern const Ops hardware_ops;
/// Publishes lines in the fastest way of this CPU.
extern const Ops software_ops;
/// Publishes lines by plain stores and the binding's write-back instruction.
extern const Ops software_write_back_ops;
extern const Ops uncached_ops;

}  // namespace penstock::coherence
