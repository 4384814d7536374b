// The calls that begin and end an MPI. A program without windows and memory of MPI needs no pool of
// ours: attachment() is for the first call that does.
#include "attachment.hpp"
#include "datatypes.hpp"
#include "export.hpp"

namespace {

using namespace penstock::mpi;

}  // namespace

PENSTOCK_EXPORT int MPI_Init(int* argc, char*** argv) {
  const void* caller = __builtin_return_address(0);
  usable(caller);
  return PENSTOCK_PASS(Init, (argc, argv));
}

PENSTOCK_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const void* caller = __builtin_return_address(0);
  usable(caller);
  return PENSTOCK_PASS(Init_thread, (argc, argv, required, provided));
}

PENSTOCK_EXPORT int MPI_Finalize() {
  const void* caller = __builtin_return_address(0);
  if (usable(caller)) {
    close_datatypes();
    detach();
  }
  return PENSTOCK_PASS(Finalize, ());
}
