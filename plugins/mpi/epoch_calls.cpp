// Epochs: fence; post, start, complete, wait; locks and flushes.
#include <vector>

#include "atomic_order.hpp"
#include "base/format.hpp"
#include "export.hpp"

namespace {

using namespace penstock::mpi;
using penstock::sync::Hold;

std::uint32_t asserts(int mpi_assert) {
  const Constants& mpi = constants();
  const auto given = [&](int bit, std::uint32_t ours) {
    return (mpi_assert & bit) != 0 ? ours : 0;
  };
  namespace window = penstock::window;
  return given(mpi.mode_nocheck, window::no_check) | given(mpi.mode_nostore, window::no_store) |
         given(mpi.mode_noprecede, window::no_precede) |
         given(mpi.mode_nosucceed, window::no_succeed);
}

/// The group's ranks in the window; reused, so that epochs allocate nothing.
std::vector<std::uint32_t>& ranks_of(const PoolWindow& window, Handle group) {
  thread_local std::vector<int> own, translated;
  thread_local std::vector<std::uint32_t> ranks;
  int size = 0;
  pmpi().Group_size(group, &size);
  while (own.size() < static_cast<std::size_t>(size)) own.push_back(static_cast<int>(own.size()));
  translated.resize(own.size());
  if (size != 0)
    pmpi().Group_translate_ranks(group, size, own.data(), window.group, translated.data());
  ranks.assign(translated.begin(), translated.begin() + size);
  return ranks;
}

penstock::Result<void> test(PoolWindow& window, int* flag) {
  const auto done = window.core->test();
  *flag = done && *done ? 1 : 0;
  if (!done) return penstock::unexpected(done.error());
  return {};
}

penstock::Result<void> lock(PoolWindow& window, int type, int rank, int mpi_assert) {
  const Constants& mpi = constants();
  if (rank == mpi.proc_null) return {};
  if (type != mpi.lock_shared && type != mpi.lock_exclusive)
    return penstock::fail(penstock::ErrorCode::mismatch,
                          "MPI_Win_lock takes MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE");
  const Hold hold = type == mpi.lock_shared ? Hold::shared : Hold::exclusive;
  return window.core->lock(static_cast<std::uint32_t>(rank), hold, asserts(mpi_assert));
}

using OfRank = penstock::Result<void> (penstock::window::Window::*)(std::uint32_t);

penstock::Result<void> of_rank(PoolWindow& window, int rank, OfRank call) {
  if (rank == constants().proc_null) return {};
  return (window.core.get()->*call)(static_cast<std::uint32_t>(rank));
}

using Core = penstock::window::Window;

/// A call by which a rank synchronizes its own segment. It may have learned by it what lies in
/// others of its windows.
template <class Call>
int synchronizing(PoolWindow& window, bool own, const Call& call) {
  const auto finished = [&] {
    return finish(window.handle, [&] {
      const Entered entered(window);
      return call();
    }());
  };
  if (!own) return finished();
  note_synchronized(window);
  return in_order(finished);
}

bool is_own(const PoolWindow& window, int rank) {
  return rank >= 0 && static_cast<std::uint32_t>(rank) == window.core->self();
}

}  // namespace

PENSTOCK_WINDOW_CALL(Win_fence, (int assert, Handle win), (assert, win),
                     window->core->fence(asserts(assert)));
PENSTOCK_WINDOW_CALL(Win_post, (Handle group, int assert, Handle win), (group, assert, win),
                     window->core->post(ranks_of(*window, incoming(group)), asserts(assert)));
PENSTOCK_WINDOW_CALL(Win_start, (Handle group, int assert, Handle win), (group, assert, win),
                     window->core->start(ranks_of(*window, incoming(group)), asserts(assert)));
PENSTOCK_WINDOW_CALL(Win_complete, (Handle win), (win), window->core->complete());
PENSTOCK_WINDOW_CALL(Win_wait, (Handle win), (win), window->core->wait());
PENSTOCK_WINDOW_CALL(Win_test, (Handle win, int* flag), (win, flag), test(*window, flag));

PENSTOCK_WINDOW_QUESTION_OR(Win_lock, (int type, int rank, int assert, Handle win),
                            PENSTOCK_PASS(Win_lock, (type, rank, assert, win)),
                            synchronizing(*window, is_own(*window, rank),
                                          [&] { return lock(*window, type, rank, assert); }));
PENSTOCK_WINDOW_QUESTION_OR(Win_unlock, (int rank, Handle win),
                            PENSTOCK_PASS(Win_unlock, (rank, win)),
                            synchronizing(*window, is_own(*window, rank),
                                          [&] { return of_rank(*window, rank, &Core::unlock); }));
PENSTOCK_WINDOW_CALL(Win_lock_all, (int assert, Handle win), (assert, win),
                     window->core->lock_all(asserts(assert)));
PENSTOCK_WINDOW_CALL(Win_unlock_all, (Handle win), (win), window->core->unlock_all());
PENSTOCK_WINDOW_CALL(Win_flush, (int rank, Handle win), (rank, win),
                     of_rank(*window, rank, &Core::flush));
PENSTOCK_WINDOW_CALL(Win_flush_all, (Handle win), (win), window->core->flush_all());
// Here operations are complete when they return: a local flush costs no more than the checks.
PENSTOCK_WINDOW_CALL(Win_flush_local, (int rank, Handle win), (rank, win),
                     of_rank(*window, rank, &Core::flush));
PENSTOCK_WINDOW_CALL(Win_flush_local_all, (Handle win), (win), window->core->flush_all());
PENSTOCK_WINDOW_QUESTION_OR(Win_sync, (Handle win), PENSTOCK_PASS(Win_sync, (win)),
                            synchronizing(*window, true, [&] { return window->core->sync(); }));
