// Our errors as an MPI's.
#pragma once

#include "abi.hpp"

namespace penstock::mpi {

/// Passes the error to the window's handler (the default one ends the job with the message) and
/// returns the code for the program if the handler returns. The caller holds no lock of the window:
/// the handler may call it.
int raise(Handle win, const Error& error);
/// The status of a call on a window: MPI_SUCCESS, or that of the MPI; or as raise().
int finish(Handle win, const Result<void>& done);
int finish(Handle win, const Result<int>& done);
/// The same for a call without a window: the handler of the communicator.
int raise_on_comm(Handle comm, const Error& error);
/// Its code alone.
int code_on_comm(const Error& error);

}  // namespace penstock::mpi
