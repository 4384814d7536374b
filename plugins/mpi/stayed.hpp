// Collective calls that stayed with the MPI, and why: for `penstock run --stats`.
#pragma once

#include <cstdint>

#include "collective_arguments.hpp"

namespace penstock::mpi {

enum class Why : std::uint8_t {
  call,      ///< the pool does not do it
  setting,   ///< PENSTOCK_COLL
  comm,      ///< its communicator
  argument,  ///< a type, an operation or a size
};

void note_stayed(CollectiveCall call, Why why);
/// Writes them into the folder of the exit log, a line each; one rank does so for all, which make
/// the same calls. Nothing without such a folder.
void write_stayed();

}  // namespace penstock::mpi
