// Counts the collective calls that stayed with the MPI, and why, for `penstock run --stats`.
#pragma once

#include <cstdint>

#include "collective_arguments.hpp"

namespace penstock::mpi {

enum class Why : std::uint8_t {
  call,      ///< the pool does not have this call
  setting,   ///< PENSTOCK_COLL leaves the call to the MPI
  comm,      ///< the pool does not serve the communicator
  argument,  ///< the pool does not support the type, operation or size
};

void note_stayed(CollectiveCall call, Why why);
/// Writes the counts into the exit log's folder, a line for each call and reason. Only the first
/// rank to call this writes, since all make the same calls. Does nothing without such a folder.
void write_stayed();

}  // namespace penstock::mpi
