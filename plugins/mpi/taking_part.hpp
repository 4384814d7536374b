// Checks that all ranks take part in the pool's windows and collectives: a rank must not wait in
// the pool for a rank that made the MPI's own call (plugins/session/apart.hpp).
#pragma once

#include "abi.hpp"
#include "session/apart.hpp"

namespace penstock::mpi {

enum class Shared : std::uint8_t { windows, collectives };

/// True if all ranks of the communicator take part and, for collectives, have selected the same
/// calls. Otherwise the MPI serves the communicator on all ranks, and the first rank that takes
/// part reports once which rank does not, and why. Ranks of another MPI_COMM_WORLD, or of a
/// session, count as taking part.
bool all_take_part(Handle comm, Shared in);

/// Notes that the program's MPI calls reach this library. Called in MPI_Init and the like.
void note_calls_seen();
/// Whether this process takes part. The libfabric provider tells the other ranks.
plugin::Apart apart_here();

}  // namespace penstock::mpi
