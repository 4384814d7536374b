// Flattens a datatype: asks the MPI how it was made, recursively down to predefined types.
#pragma once

#include <cstdint>
#include <vector>

#include "abi.hpp"
#include "base/status.hpp"
#include "datatypes.hpp"

namespace penstock::mpi {

/// True if the MPI itself made the type (its handle stays, it must not be freed): a named one, or
/// one of MPI_Type_create_f90_* and MPI_Type_get_value_index.
Result<bool> is_predefined(Handle type);

/// Size, lower bound and extent, as the MPI tells them.
struct Measures {
  std::uint64_t size;
  std::int64_t lb, extent;
};
Measures measures_of(Handle type);

/// The error of a type of more pieces than memory should hold.
Error too_many_pieces();

/// Computes the layout of any type, without a cache. The alternative, packing a buffer whose bytes
/// tell their own offsets, needs memory as large as the type's extent, takes several passes, and
/// cannot tell which predefined type the data are of.
Result<Layout> flatten(Handle type);

}  // namespace penstock::mpi
