// Flattens a datatype: asks the MPI how the type was made, recursively down to predefined types.
#pragma once

#include <cstdint>
#include <vector>

#include "abi.hpp"
#include "base/status.hpp"
#include "datatypes.hpp"

namespace penstock::mpi {

/// True if the type belongs to the MPI and must not be freed: a named type, or one returned by
/// MPI_Type_create_f90_* or MPI_Type_get_value_index.
Result<bool> is_predefined(Handle type);

/// Size, lower bound and extent in bytes, as the MPI reports them.
struct Measures {
  std::uint64_t size;
  std::int64_t lb, extent;
};
Measures measures_of(Handle type);

/// The error for a type with too many pieces.
Error too_many_pieces();

/// Computes the layout of any type, without a cache. The alternative is to pack a buffer in which
/// each byte encodes its own offset. That needs memory as large as the type's extent and several
/// passes, and does not show the predefined types of the data.
Result<Layout> flatten(Handle type);

}  // namespace penstock::mpi
