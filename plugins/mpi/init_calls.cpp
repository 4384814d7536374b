// The calls that begin and end an MPI. They do not attach: a program without windows or memory of
// MPI needs no pool, so the first call that needs it calls attachment().
#include <optional>

#include "attachment.hpp"
#include "base/fork.hpp"
#include "creation.hpp"
#include "datatypes.hpp"
#include "export.hpp"
#include "pool/exit_log.hpp"
#include "pool_comms.hpp"
#include "singleton.hpp"
#include "stayed.hpp"
#include "transport_check.hpp"

namespace {

using namespace penstock::mpi;

std::optional<penstock::base::Origin> started;  ///< by which process

/// `known`: the MPI is one whose functions we can call.
int begun(bool known, int result) {
  if (!known || result != constants().success) return result;
  check_transport();
  return check_world(result);
}

}  // namespace

PENSTOCK_EXPORT int MPI_Init(int* argc, char*** argv) {
  const void* caller = __builtin_return_address(0);
  const bool known = usable(caller);
  started.emplace();
  return begun(known, PENSTOCK_PASS(Init, (argc, argv)));
}

PENSTOCK_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const void* caller = __builtin_return_address(0);
  const bool known = usable(caller);
  started.emplace();
  return begun(known, PENSTOCK_PASS(Init_thread, (argc, argv, required, provided)));
}

PENSTOCK_EXPORT int MPI_Abort(Handle comm, int code) {
  const void* caller = __builtin_return_address(0);
  usable(caller);
  penstock::pool::tell_of_abort(code);
  return PENSTOCK_PASS(Abort, (comm, code));
}

PENSTOCK_EXPORT int MPI_Finalize() {
  const void* caller = __builtin_return_address(0);
  // Exit handlers call it in forked children too, which are no ranks: it would look as if the
  // parent ended.
  if (started && !started->here()) return constants().success;
  penstock::pool::tell_of_finalize();
  if (usable(caller) && !have_windows_of_sessions()) {
    leave_all_comms();
    leave_all_windows();
    close_datatypes();
    detach();
    write_stayed();
  }
  return PENSTOCK_PASS(Finalize, ());
}
