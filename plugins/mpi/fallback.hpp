// The fallback when windows cannot be ours: warn, or end the process.
#pragma once

#include <string>

namespace penstock::mpi {

/// With PENSTOCK_REQUIRE: prints the reason and ends this process (status 78, EX_CONFIG), which
/// ends the job: a preloaded library has no other way to tell the launcher. Otherwise: warns of
/// each reason once a process; the caller then passes its calls on to the MPI.
void refuse(const std::string& why);

}  // namespace penstock::mpi
