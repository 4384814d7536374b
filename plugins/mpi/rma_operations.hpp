// One-sided operations on windows in the pool. Translates MPI's arguments to packed bytes and
// ranges.
#pragma once

#include "errors.hpp"
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
  Aint displacement = 0;  ///< in the target's displacement units
  Count count = 0;
  Handle type = 0;
};

/// Errors: MPI_ERR_RANK.
MpiResult<void> check_rank(const PoolWindow& window, int rank);

/// Each of these does nothing if the target is MPI_PROC_NULL.
MpiResult<void> put(PoolWindow& window, const Buffer& origin, const Target& target);
MpiResult<void> get(PoolWindow& window, const Buffer& origin, const Target& target);
/// MPI_Get_accumulate; MPI_Accumulate if `result` is null.
MpiResult<void> accumulate(PoolWindow& window, const Buffer& origin, const Buffer* result,
                           const Target& target, Handle op);
/// MPI_Fetch_and_op: one element, of the same type in all buffers.
MpiResult<void> fetch_and_op(PoolWindow& window, const Buffer& origin, const Buffer& result,
                             const Target& target, Handle op);
MpiResult<void> compare_and_swap(PoolWindow& window, const void* origin, const void* compare,
                                 void* result, const Target& target);

}  // namespace penstock::mpi
