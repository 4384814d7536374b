// The answers of dlsym in this process. Bindings of languages open an MPI by themselves and ask
// that handle for its functions; tools ask for the next function behind their own. Both would
// bypass this library. So where the answer is a function of the MPI, they get our PMPI_* instead
// (docs/decisions/0039).
#pragma once

namespace penstock::mpi {

/// The function of ours that replaces the answer of dlsym(handle, name) to `caller`; null if that
/// answer is right.
void* our_symbol(void* handle, const char* name, const void* caller);

}  // namespace penstock::mpi
