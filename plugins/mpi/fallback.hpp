// What happens when the windows cannot be ours.
#pragma once

#include <string>

namespace penstock::mpi {

/// With PENSTOCK_REQUIRE says why and ends this process (status 78, EX_CONFIG), which ends the job:
/// a preloaded library has no other way to tell the launcher. Else says each reason once a process,
/// as a warning; the caller then passes calls on to the MPI.
void refuse(const std::string& why);

}  // namespace penstock::mpi
