// Our errors as an MPI's.
#pragma once

#include "abi.hpp"

namespace penstock::mpi {

/// Gives the error to the handler of the window (by default it ends the job with the message); the
/// code to return when that comes back. By who is not in the window: the handler may call it.
int raise(Handle win, const Error& error);
/// The status of a call on a window: MPI_SUCCESS, or that of the MPI; or as raise().
int finish(Handle win, const Result<void>& done);
int finish(Handle win, const Result<int>& done);
/// The same for a call without a window: the handler of the communicator.
int raise_on_comm(Handle comm, const Error& error);

}  // namespace penstock::mpi
