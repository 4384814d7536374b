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

/// Each gives the status to return, after the window's error handler. A null rank does nothing.
int put(PoolWindow& window, const Buffer& origin, const Target& target);
int get(PoolWindow& window, const Buffer& origin, const Target& target);
/// `result` null: MPI_Accumulate.
int accumulate(PoolWindow& window, const Buffer& origin, const Buffer* result, const Target& target,
               Handle op);
int fetch_and_op(PoolWindow& window, const void* origin, void* result, const Target& target,
                 Handle op);
int compare_and_swap(PoolWindow& window, const void* origin, const void* compare, void* result,
                     const Target& target);

}  // namespace penstock::mpi
