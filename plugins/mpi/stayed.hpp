// Collective calls that stayed with the MPI, and why: for `penstock run --stats`.
#pragma once

#include <cstdint>

#include "collective_arguments.hpp"

namespace penstock::mpi {

enum class Why : std::uint8_t {
  call,      ///< the pool does not have this call
  setting,   ///< PENSTOCK_COLL leaves it to the MPI
  comm,      ///< its communicator is not in the pool
  argument,  ///< its type, operation or size is not for the pool
};

void note_stayed(CollectiveCall call, Why why);
/// Writes the calls into the folder of the exit log, a line each. One rank writes for all, since
/// all make the same calls. Without such a folder it does nothing.
void write_stayed();

}  // namespace penstock::mpi
