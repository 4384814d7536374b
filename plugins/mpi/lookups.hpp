// The answers of dlsym in this process. Bindings of languages open an MPI by themselves and ask
// that handle for its functions; tools ask for the next function behind their own. Both would get
// past this library: so for the MPI's functions they are given our PMPI_* (docs/decisions/0039).
#pragma once

namespace penstock::mpi {

/// Our function in place of the one that dlsym(handle, name) would give `caller`; null: dlsym's own
/// answer is right.
void* our_symbol(void* handle, const char* name, const void* caller);

}  // namespace penstock::mpi
