// One-sided operations on windows in the pool: from MPI's arguments to packed bytes and pieces.
#pragma once

#include "windows.hpp"

namespace penstock::mpi {

/// The caller's side of an operation.
struct Buffer {
  void* at = nullptr;
  Count count = 0;
  Handle type = 0;
};

struct Target {
  int rank = 0;
  Aint displacement = 0;  ///< in units of the target
  Count count = 0;
  Handle type = 0;
};

/// A null rank does nothing.
Result<void> put(PoolWindow& window, const Buffer& origin, const Target& target);
Result<void> get(PoolWindow& window, const Buffer& origin, const Target& target);
/// `result` null: MPI_Accumulate.
Result<void> accumulate(PoolWindow& window, const Buffer& origin, const Buffer* result,
                        const Target& target, Handle op);
/// One element, of the same type everywhere.
Result<void> fetch_and_op(PoolWindow& window, const Buffer& origin, const Buffer& result,
                          const Target& target, Handle op);
Result<void> compare_and_swap(PoolWindow& window, const void* origin, const void* compare,
                              void* result, const Target& target);

}  // namespace penstock::mpi
