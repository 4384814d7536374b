// Combinations of predefined types and operations that an MPI supports beyond the standard:
// MPI_CHAR, logical operations on reals, and other extensions. Each is tried once on the MPI.
#pragma once

#include <cstdint>
#include <optional>

#include "abi.hpp"
#include "datatypes.hpp"
#include "schedule/operations.hpp"

namespace penstock::mpi {

enum class Meaning : std::uint8_t {
  refused,       ///< the MPI reports an error, or cannot be asked
  own,           ///< only the MPI can compute it
  signed_bytes,  ///< each pair of values is reduced like signed integers of 8 bits
  unsigned_bytes,
};

/// How the MPI reduces elements of `type` by `op`, both predefined; `operation` is coll's name for
/// `op`. During the call no MPI error, of any thread, reaches an error handler of the program.
/// Thread-safe.
Meaning meaning_of(Handle type, Handle op, std::optional<coll::Operation> operation,
                   const Layout& layout);

}  // namespace penstock::mpi
