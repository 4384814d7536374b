// Epoch calls: fence; post, start, complete, wait; locks and flushes.
#include <span>
#include <vector>

#include "atomic_order.hpp"
#include "export.hpp"
#include "rma_operations.hpp"

namespace {

using namespace penstock::mpi;
using penstock::sync::Hold;

MpiResult<std::uint32_t> asserts(int mpi_assert) {
  const Constants& mpi = constants();
  const auto given = [&](int bit, std::uint32_t ours) {
    return (mpi_assert & bit) != 0 ? ours : 0;
  };
  const int known = mpi.mode_nocheck | mpi.mode_nostore | mpi.mode_noput | mpi.mode_noprecede |
                    mpi.mode_nosucceed;
  if ((mpi_assert & ~known) != 0)
    return wrong(mpi.err_assert, "an assertion of {}, whose bits {} are no MPI_MODE_*", mpi_assert,
                 mpi_assert & ~known);
  namespace window = penstock::window;
  return given(mpi.mode_nocheck, window::no_check) | given(mpi.mode_nostore, window::no_store) |
         given(mpi.mode_noprecede, window::no_precede) |
         given(mpi.mode_nosucceed, window::no_succeed);
}

/// Returns the group's ranks in the window. The memory is reused, so that epochs allocate nothing.
MpiResult<std::span<const std::uint32_t>> ranks_of(const PoolWindow& window, Handle group) {
  thread_local std::vector<int> own, translated;
  thread_local std::vector<std::uint32_t> ranks;
  int size = 0;
  if (group == constants().group_null) return wrong(constants().err_group, "MPI_GROUP_NULL");
  pmpi().Group_size(group, &size);
  while (own.size() < static_cast<std::size_t>(size)) own.push_back(static_cast<int>(own.size()));
  translated.resize(own.size());
  if (size != 0)
    pmpi().Group_translate_ranks(group, size, own.data(), window.group, translated.data());
  for (int i = 0; i < size; ++i) {
    if (translated[static_cast<std::size_t>(i)] == constants().undefined)
      return wrong(constants().err_group, "rank {} of the group is not in the window", i);
  }
  ranks.assign(translated.begin(), translated.begin() + size);
  return ranks;
}

MpiResult<void> fence(PoolWindow& window, int mpi_assert) {
  const auto asserted = PENSTOCK_TRY(asserts(mpi_assert));
  PENSTOCK_TRY(window.core->fence(asserted));
  return {};
}

using Core = penstock::window::Window;
using OfGroup = penstock::Result<void> (Core::*)(std::span<const std::uint32_t>, std::uint32_t);

MpiResult<void> of_group(PoolWindow& window, Handle group, int mpi_assert, OfGroup call) {
  const auto ranks = PENSTOCK_TRY(ranks_of(window, group));
  const auto asserted = PENSTOCK_TRY(asserts(mpi_assert));
  PENSTOCK_TRY((window.core.get()->*call)(ranks, asserted));
  return {};
}

penstock::Result<void> test(PoolWindow& window, int* flag) {
  const auto done = window.core->test();
  *flag = done && *done ? 1 : 0;
  if (!done) return penstock::unexpected(done.error());
  return {};
}

MpiResult<void> lock(PoolWindow& window, int type, int rank, int mpi_assert) {
  const Constants& mpi = constants();
  if (type != mpi.lock_shared && type != mpi.lock_exclusive)
    return wrong(mpi.err_locktype,
                 "a lock of type {}: MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE is needed", type);
  const auto asserted = PENSTOCK_TRY(asserts(mpi_assert));
  if (rank == mpi.proc_null) return {};
  PENSTOCK_TRY(check_rank(window, rank));
  const Hold hold = type == mpi.lock_shared ? Hold::shared : Hold::exclusive;
  PENSTOCK_TRY(window.core->lock(static_cast<std::uint32_t>(rank), hold, asserted));
  return {};
}

MpiResult<void> lock_all(PoolWindow& window, int mpi_assert) {
  const auto asserted = PENSTOCK_TRY(asserts(mpi_assert));
  PENSTOCK_TRY(window.core->lock_all(asserted));
  return {};
}

using OfRank = penstock::Result<void> (Core::*)(std::uint32_t);

MpiResult<void> of_rank(PoolWindow& window, int rank, OfRank call) {
  if (rank == constants().proc_null) return {};
  PENSTOCK_TRY(check_rank(window, rank));
  PENSTOCK_TRY((window.core.get()->*call)(static_cast<std::uint32_t>(rank)));
  return {};
}

/// Makes a call that synchronizes this rank's own segment. The call may also tell the rank that its
/// other windows hold new data.
template <class Call>
int synchronizing(PoolWindow& window, bool own, const Call& call) {
  const auto finished = [&] { return finish_on(window, call); };
  if (!own) return finished();
  note_synchronized(window);
  if (windows_with_atomics.load(std::memory_order_relaxed) > few_windows) return finished();
  return in_order(finished);
}

bool is_own(const PoolWindow& window, int rank) {
  return rank >= 0 && static_cast<std::uint32_t>(rank) == window.core->self();
}

}  // namespace

PENSTOCK_WINDOW_CALL(Win_fence, (int assert, Handle win), (assert, win), fence(*window, assert));
PENSTOCK_WINDOW_CALL(Win_post, (Handle group, int assert, Handle win), (group, assert, win),
                     of_group(*window, incoming(group), assert, &Core::post));
PENSTOCK_WINDOW_CALL(Win_start, (Handle group, int assert, Handle win), (group, assert, win),
                     of_group(*window, incoming(group), assert, &Core::start));
PENSTOCK_WINDOW_CALL(Win_complete, (Handle win), (win), window->core->complete());
PENSTOCK_WINDOW_CALL(Win_wait, (Handle win), (win), window->core->wait());
PENSTOCK_WINDOW_CALL(Win_test, (Handle win, int* flag), (win, flag), test(*window, flag));

PENSTOCK_WINDOW_QUESTION_OR(Win_lock, (int type, int rank, int assert, Handle win),
                            (type, rank, assert, win),
                            PENSTOCK_PASS(Win_lock, (type, rank, assert, win)),
                            synchronizing(*window, is_own(*window, rank),
                                          [&] { return lock(*window, type, rank, assert); }));
PENSTOCK_WINDOW_QUESTION_OR(Win_unlock, (int rank, Handle win), (rank, win),
                            PENSTOCK_PASS(Win_unlock, (rank, win)),
                            synchronizing(*window, is_own(*window, rank),
                                          [&] { return of_rank(*window, rank, &Core::unlock); }));
PENSTOCK_WINDOW_CALL(Win_lock_all, (int assert, Handle win), (assert, win),
                     lock_all(*window, assert));
PENSTOCK_WINDOW_CALL(Win_unlock_all, (Handle win), (win), window->core->unlock_all());
PENSTOCK_WINDOW_CALL(Win_flush, (int rank, Handle win), (rank, win),
                     of_rank(*window, rank, &Core::flush));
PENSTOCK_WINDOW_CALL(Win_flush_all, (Handle win), (win), window->core->flush_all());
// Operations are complete when they return, so a local flush only checks its arguments.
PENSTOCK_WINDOW_CALL(Win_flush_local, (int rank, Handle win), (rank, win),
                     of_rank(*window, rank, &Core::flush));
PENSTOCK_WINDOW_CALL(Win_flush_local_all, (Handle win), (win), window->core->flush_all());
PENSTOCK_WINDOW_QUESTION_OR(Win_sync, (Handle win), (win), PENSTOCK_PASS(Win_sync, (win)),
                            synchronizing(*window, true, [&] { return window->core->sync(); }));
