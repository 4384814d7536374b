// The ranks that take part in the pool's windows and collectives. No rank may wait in the pool for
// one that is in the MPI's call (plugins/session/apart.hpp).
#pragma once

#include "abi.hpp"
#include "session/apart.hpp"

namespace penstock::mpi {

enum class Shared : std::uint8_t { windows, collectives };

/// True if all ranks of the communicator take part, and for collectives want the same ones. Else
/// the MPI serves it on all of them, and the first that takes part says once who does not, and why.
/// A rank of another MPI_COMM_WORLD, or of a session, counts as one that does.
bool all_take_part(Handle comm, Shared in);

/// Called by MPI_Init and its like.
void note_calls_come();
/// The provider tells it of this process.
plugin::Apart apart_here();

}  // namespace penstock::mpi
