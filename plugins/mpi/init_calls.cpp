// The calls that begin and end an MPI. They do not attach: a program without windows or memory of
// MPI needs no pool, so the first call that needs it calls attachment().
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

std::optional<penstock::base::Origin> started;  ///< by which process
std::atomic<bool> callable{false};              ///< the MPI is one whose functions we can call

bool begin(const void* caller) {
  const bool known = usable(caller);
  started.emplace();
  callable = known;  // another thread may look at both
  note_calls_come();
  return callable;
}

int begun(bool known, int result) {
  if (known && result == constants().success) check_world();
  return result;
}

/// This rank's part in the pool ends.
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
  note_calls_come();
  return PENSTOCK_PASS(Session_init, (info, errhandler, session));
}

PENSTOCK_MPI(Abort, (Handle comm, int code), (comm, code)) {
  usable(caller);
  penstock::pool::note_abort(code);
  return PENSTOCK_PASS(Abort, (comm, code));
}

PENSTOCK_MPI(Finalize, (), ()) {
  // Exit handlers call it in forked children too, which are no ranks: it would look as if the
  // parent ended.
  if (started && !started->here()) return constants().success;
  penstock::pool::note_finalize();
  leave(caller);
  return PENSTOCK_PASS(Finalize, ());
}

/// The provider asks it by this name: plugin::AskApart.
PENSTOCK_EXPORT void mpi_penstock_apart(penstock::plugin::Apart* apart) {
  *apart = apart_here();
}

/// The provider asks it by this name, when a second thread calls the MPI.
PENSTOCK_EXPORT int mpi_penstock_one_thread_promised() {
  int level = 0;
  if (!callable || !started->here()) return 0;
  const bool known = pmpi().Query_thread(&level) == constants().success;
  return known && level <= constants().thread_funneled ? 1 : 0;
}
