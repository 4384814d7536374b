#include "hooks.hpp"

#include "attachment.hpp"
#include "datatypes.hpp"

namespace penstock::mpi {

// A program without windows and memory of MPI needs no pool of ours: attachment() is for its first
// call.
void after_init() {}

void before_finalize() {
  close_datatypes();
  detach();
}

}  // namespace penstock::mpi
