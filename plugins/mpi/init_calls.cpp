// The calls that initialize and finalize the MPI. They do not attach to the pool: the first call
// that needs it does, by attachment().
#include <atomic>
#include <optional>

#include "attachment.hpp"
#include "base/fork.hpp"
#include "creation.hpp"
#include "datatypes.hpp"
#include "export.hpp"
#include "pool/exit_log.hpp"
#include "pool_comms.hpp"
#include "stayed.hpp"
#include "taking_part.hpp"
#include "world_check.hpp"

namespace {

using namespace penstock::mpi;

std::optional<penstock::base::Origin> started;  ///< the process that initialized MPI
std::atomic<bool> callable{false};              ///< we can call this MPI's functions

bool begin(const void* caller) {
  const bool known = usable(caller);
  started.emplace();
  callable = known;  // last: another thread may read `callable`, then `started`
  note_calls_seen();
  return callable;
}

int begun(bool known, int result) {
  if (known && result == constants().success) check_world();
  return result;
}

/// Ends this rank's use of the pool.
void leave(const void* caller) {
  if (!usable(caller) || have_windows_of_sessions()) return;
  leave_all_comms();
  leave_all_windows();
  close_datatypes();
  detach();
  write_stayed();
}

}  // namespace

PENSTOCK_MPI(Init, (int* argc, char*** argv), (argc, argv)) {
  const bool known = begin(caller);
  return begun(known, PENSTOCK_PASS(Init, (argc, argv)));
}

PENSTOCK_MPI(Init_thread, (int* argc, char*** argv, int required, int* provided),
             (argc, argv, required, provided)) {
  const bool known = begin(caller);
  return begun(known, PENSTOCK_PASS(Init_thread, (argc, argv, required, provided)));
}

PENSTOCK_MPI(Session_init, (Handle info, Handle errhandler, void* session),
             (info, errhandler, session)) {
  usable(caller);
  note_calls_seen();
  return PENSTOCK_PASS(Session_init, (info, errhandler, session));
}

PENSTOCK_MPI(Abort, (Handle comm, int code), (comm, code)) {
  usable(caller);
  penstock::pool::note_abort(code);
  return PENSTOCK_PASS(Abort, (comm, code));
}

PENSTOCK_MPI(Finalize, (), ()) {
  // Exit handlers call this in forked children too. A child is no rank, and must not finalize for
  // its parent.
  if (started && !started->here()) return constants().success;
  penstock::pool::note_finalize();
  leave(caller);
  return PENSTOCK_PASS(Finalize, ());
}

/// The libfabric provider calls this by name: plugin::AskApart.
PENSTOCK_EXPORT void mpi_penstock_apart(penstock::plugin::Apart* apart) {
  *apart = apart_here();
}

/// The libfabric provider calls this by name when a second thread calls the MPI. Returns 1 if the
/// program promised to call the MPI from one thread.
PENSTOCK_EXPORT int mpi_penstock_one_thread_promised() {
  int level = 0;
  if (!callable || !started->here()) return 0;
  const bool known = pmpi().Query_thread(&level) == constants().success;
  return known && level <= constants().thread_funneled ? 1 : 0;
}
