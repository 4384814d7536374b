// The data of the operations of one (mode, flush choice); it lives as long as the process.
#pragma once

#include "arch/arch.hpp"
#include "coherence/coherence.hpp"

namespace penstock::coherence {

struct Binding {
  const arch::Table* table;
  arch::RangeFn write_back;
  arch::RangeFn invalidate;
};

inline const Binding& binding(void* self) {
  return *static_cast<const Binding*>(self);
}
inline const arch::Table& table(void* self) {
  return *binding(self).table;
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
