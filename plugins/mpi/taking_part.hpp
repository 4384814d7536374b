// The ranks that take part in the pool's windows and collectives. A rank must not wait in the pool
// for a rank that is in the MPI's call (plugins/session/apart.hpp).
#pragma once

#include "abi.hpp"
#include "session/apart.hpp"

namespace penstock::mpi {

enum class Shared : std::uint8_t { windows, collectives };

/// True if all ranks of the communicator take part, and for collectives want the same ones. Else
/// the MPI serves the communicator on all of them, and the first rank that takes part reports once
/// which rank does not, and why. A rank of another MPI_COMM_WORLD, or of a session, counts as
/// taking part.
bool all_take_part(Handle comm, Shared in);

/// Called by MPI_Init and the like: the program's calls come to this library.
void note_calls_come();
/// Of this process. The provider tells the other ranks.
plugin::Apart apart_here();

}  // namespace penstock::mpi
