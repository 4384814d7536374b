// The calls that begin and end an MPI.
#include "export.hpp"
#include "hooks.hpp"

namespace {

using namespace penstock::mpi;

}  // namespace

PENSTOCK_EXPORT int MPI_Init(int* argc, char*** argv) {
  const void* caller = __builtin_return_address(0);
  const bool ours = usable(caller);
  const int status = PENSTOCK_PASS(Init, (argc, argv));
  if (ours && status == constants().success) after_init();
  return status;
}

PENSTOCK_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const void* caller = __builtin_return_address(0);
  const bool ours = usable(caller);
  const int status = PENSTOCK_PASS(Init_thread, (argc, argv, required, provided));
  if (ours && status == constants().success) after_init();
  return status;
}

PENSTOCK_EXPORT int MPI_Finalize() {
  const void* caller = __builtin_return_address(0);
  if (usable(caller)) before_finalize();
  return PENSTOCK_PASS(Finalize, ());
}
