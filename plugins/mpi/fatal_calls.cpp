// The functions that MPICH and its derivatives call after a failed MPI call of the program. Unless
// the program asked for errors to return, they end the job, and the launcher may kill other ranks
// before the one that failed.
#include "export.hpp"
#include "pool/exit_log.hpp"

namespace {

using namespace penstock::mpi;

using Handler = int (*)(void* object, const char function[], int code);

int handle(const char* name, void* object, const char* function, int code, const void* caller) {
  // `caller` may be in this library: the MPI calls this function by a tail call.
  void* symbol = usable(caller) ? library_symbol(name) : nullptr;
  if (symbol == nullptr) symbol = next_symbol(name, caller);
  if (symbol == nullptr) return code;
  const penstock::pool::ErrorNote note;
  return reinterpret_cast<Handler>(symbol)(object, function, code);
}

}  // namespace

#define PENSTOCK_ERROR_OF(object)                                                               \
  PENSTOCK_EXPORT int MPIR_Err_return_##object(void* of, const char function[], int code) {     \
    return handle("MPIR_Err_return_" #object, of, function, code, __builtin_return_address(0)); \
  }                                                                                             \
  static_assert(true)

PENSTOCK_ERROR_OF(comm);
PENSTOCK_ERROR_OF(win);
PENSTOCK_ERROR_OF(session);
