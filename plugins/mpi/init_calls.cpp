// The calls that begin and end an MPI.
#include "hooks.hpp"
#include "real.hpp"
#include "refusal.hpp"

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace penstock::mpi;

constexpr int err_other = 1;  // not MPI_SUCCESS under any ABI; when not even an MPI is there

/// Whether the calls of this MPI can be served; says once why not.
bool usable(const void* caller) {
  const auto found = find_mpi(caller);
  if (!found) refuse(found.error().message);
  return found.has_value();
}

template <class Function>
Function* next(const char* name, const void* caller) {
  return reinterpret_cast<Function*>(mpi_symbol(name, caller));
}

}  // namespace

PENSTOCK_EXPORT int MPI_Init(int* argc, char*** argv) {
  const void* caller = __builtin_return_address(0);
  const bool ours = usable(caller);
  auto* init = next<int(int*, char***)>("Init", caller);
  if (init == nullptr) return err_other;
  const int status = init(argc, argv);
  if (ours && status == constants().success) after_init();
  return status;
}

PENSTOCK_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const void* caller = __builtin_return_address(0);
  const bool ours = usable(caller);
  auto* init = next<int(int*, char***, int, int*)>("Init_thread", caller);
  if (init == nullptr) return err_other;
  const int status = init(argc, argv, required, provided);
  if (ours && status == constants().success) after_init();
  return status;
}

PENSTOCK_EXPORT int MPI_Finalize() {
  const void* caller = __builtin_return_address(0);
  if (usable(caller)) before_finalize();
  auto* finalize = next<int()>("Finalize", caller);
  return finalize != nullptr ? finalize() : err_other;
}
