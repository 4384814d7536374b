// Replaces some results of dlsym in this process. Language bindings open an MPI themselves and look
// up its functions in that handle; tools look up the next function after their own. Both would
// bypass this library. So if the result is a function of the MPI, they get our PMPI_* instead
// (docs/decisions/0039).
#pragma once

namespace penstock::mpi {

/// Our function that replaces the result of dlsym(handle, name) for `caller`; null if dlsym's own
/// result is right.
void* our_symbol(void* handle, const char* name, const void* caller);

}  // namespace penstock::mpi
