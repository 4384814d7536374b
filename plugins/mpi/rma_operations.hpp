// One-sided operations on windows in the pool: from MPI's arguments to packed bytes and pieces.
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
  Aint displacement = 0;  ///< in units of the target
  Count count = 0;
  Handle type = 0;
};

/// Errors: MPI_ERR_RANK.
MpiResult<void> check_rank(const PoolWindow& window, int rank);

/// A null rank does nothing.
MpiResult<void> put(PoolWindow& window, const Buffer& origin, const Target& target);
MpiResult<void> get(PoolWindow& window, const Buffer& origin, const Target& target);
/// `result` null: MPI_Accumulate.
MpiResult<void> accumulate(PoolWindow& window, const Buffer& origin, const Buffer* result,
                           const Target& target, Handle op);
/// One element, of the same type everywhere.
MpiResult<void> fetch_and_op(PoolWindow& window, const Buffer& origin, const Buffer& result,
                             const Target& target, Handle op);
MpiResult<void> compare_and_swap(PoolWindow& window, const void* origin, const void* compare,
                                 void* result, const Target& target);

}  // namespace penstock::mpi
