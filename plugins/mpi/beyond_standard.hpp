// Predefined types and operations that an MPI reduces although the standard does not ask for it:
// MPI_CHAR, logical operations on reals, and what else each MPI adds. The MPI is asked once.
#pragma once

#include <cstdint>
#include <optional>

#include "abi.hpp"
#include "coll/operations.hpp"
#include "datatypes.hpp"

namespace penstock::mpi {

enum class Meaning : std::uint8_t {
  refused,       ///< the MPI reports an error, or cannot be asked
  own,           ///< only the MPI can compute it
  signed_bytes,  ///< each pair of values is reduced like signed integers of 8 bits
  unsigned_bytes,
};

/// How the MPI reduces elements of `type` by `op`, both predefined; `operation` is `op` as coll
/// knows it. Errors that the MPI reports meanwhile, also to other threads, reach no handler of the
/// program.
Meaning meaning_of(Handle type, Handle op, std::optional<coll::Operation> operation,
                   const Layout& layout);

}  // namespace penstock::mpi
