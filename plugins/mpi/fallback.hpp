// The fallback if the pool cannot be used: warn, or end the process.
#pragma once

#include <string>

namespace penstock::mpi {

/// Reports that the pool cannot be used. With PENSTOCK_REQUIRE, prints the reason and ends this
/// process (status 78, EX_CONFIG) and thereby the job: a preloaded library cannot tell the launcher
/// otherwise. Without it, warns of each reason once a process; the caller then passes its calls on
/// to the MPI.
void refuse(const std::string& why);

}  // namespace penstock::mpi
