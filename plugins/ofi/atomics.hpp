// Atomic operations: which ones are valid, and how to apply one to memory. Nothing here is atomic
// by itself: the owner of the memory performs all operations, one after the other.
#pragma once

#include <rdma/fi_atomic.h>

#include <cstddef>
#include <cstdint>

namespace penstock::ofi {

/// The result of an operation: nothing, the old value, or the old value after a comparison.
enum class AtomicForm : std::uint8_t { write, fetch, compare };

/// The limit for the operands of one operation.
inline constexpr std::size_t max_atomic_bytes = 4096;

/// Bytes of one element; 0 if there is no such operation.
std::size_t atomic_size(AtomicForm form, int op, int type);
/// True if the operation takes an operand (reading takes none).
bool atomic_takes_operand(int op);

/// Applies an operation that atomic_size() accepts to `count` elements. Pointers may be unaligned.
/// `result`, if given, receives the old values; `compare` is for the compare form.
void atomic_apply(int op, int type, std::size_t count, void* target, const void* operand,
                  const void* compare, void* result);

}  // namespace penstock::ofi
