// Making, asking about and freeing windows.
#include "creation.hpp"
#include "export.hpp"

namespace {

using namespace penstock::mpi;

/// What the MPI's window behind ours does not know; false: something else.
bool attribute(PoolWindow& window, int keyval, void* value) {
  const Constants& mpi = constants();
  void** const to = static_cast<void**>(value);
  if (keyval == mpi.win_base) {
    *to = window.base;
  } else if (keyval == mpi.win_size) {
    *to = &window.size;
  } else if (keyval == mpi.win_disp_unit) {
    *to = &window.unit;
  } else if (keyval == mpi.win_create_flavor) {
    *to = &window.flavor;
  } else if (keyval == mpi.win_model) {
    *to = &window.model;
  } else {
    return false;
  }
  return true;
}

int get_attribute(PoolWindow& window, int keyval, void* value, int* flag) {
  if (!attribute(window, keyval, value))
    return real().Win_get_attr(window.handle, keyval, value, flag);
  *flag = 1;
  return constants().success;
}

template <class Unit>
int query(PoolWindow& window, int rank, Aint* size, Unit* unit, void* base) {
  const Constants& mpi = constants();
  if (window.flavor != mpi.win_flavor_shared) {
    real().Win_call_errhandler(window.handle, mpi.err_rma_flavor);
    return mpi.err_rma_flavor;
  }
  const std::uint32_t ranks = window.core->ranks();
  auto wanted = static_cast<std::uint32_t>(rank);
  if (rank == mpi.proc_null) {  // the first that has memory
    wanted = 0;
    while (wanted + 1 < ranks && window.core->member(wanted).bytes == 0) ++wanted;
  }
  if (wanted >= ranks) {
    real().Win_call_errhandler(window.handle, mpi.err_rank);
    return mpi.err_rank;
  }
  *size = static_cast<Aint>(window.core->member(wanted).bytes);
  *unit = static_cast<Unit>(window.units[wanted]);
  *static_cast<void**>(base) = window.core->segment(wanted);
  return mpi.success;
}

/// nullopt: the MPI shall make it.
std::optional<int> make(Flavor flavor, Aint size, Aint unit, void* given, Handle info, Handle comm,
                        void* base, void* win) {
  if (attachment() == nullptr) return std::nullopt;
  const Wanted wanted{flavor, size, unit, given, incoming(info), incoming(comm)};
  return make_window(wanted, static_cast<void**>(base), win);
}

}  // namespace

PENSTOCK_WINDOW_CALL(Win_get_attr, (Handle win, int keyval, void* value, int* flag),
                     (win, keyval, value, flag), get_attribute(*window, keyval, value, flag));
PENSTOCK_WINDOW_CALL(Win_shared_query, (Handle win, int rank, Aint* size, int* unit, void* base),
                     (win, rank, size, unit, base), query(*window, rank, size, unit, base));
PENSTOCK_WINDOW_CALL(Win_shared_query_c, (Handle win, int rank, Aint* size, Aint* unit, void* base),
                     (win, rank, size, unit, base), query(*window, rank, size, unit, base));

PENSTOCK_EXPORT int MPI_Win_free(void* win) {
  const void* caller = __builtin_return_address(0);
  if (usable(caller)) {
    if (PoolWindow* const window = pool_window(load(win))) return free_window(*window, win);
  }
  return PENSTOCK_PASS(Win_free, (win));
}

/// One of the three, or its form with large counts.
#define PENSTOCK_MAKE(name, flavor, parameters, arguments, given, base)                           \
  PENSTOCK_EXPORT int MPI_##name parameters {                                                     \
    const void* caller = __builtin_return_address(0);                                             \
    if (usable(caller)) {                                                                         \
      if (const auto made = make(flavor, size, unit, given, info, comm, base, win)) return *made; \
    }                                                                                             \
    return PENSTOCK_PASS(name, arguments);                                                        \
  }                                                                                               \
  static_assert(true)

PENSTOCK_MAKE(Win_create, Flavor::create,
              (void* base, Aint size, int unit, Handle info, Handle comm, void* win),
              (base, size, unit, info, comm, win), base, nullptr);
PENSTOCK_MAKE(Win_create_c, Flavor::create,
              (void* base, Aint size, Aint unit, Handle info, Handle comm, void* win),
              (base, size, unit, info, comm, win), base, nullptr);
PENSTOCK_MAKE(Win_allocate, Flavor::allocate,
              (Aint size, int unit, Handle info, Handle comm, void* base, void* win),
              (size, unit, info, comm, base, win), nullptr, base);
PENSTOCK_MAKE(Win_allocate_c, Flavor::allocate,
              (Aint size, Aint unit, Handle info, Handle comm, void* base, void* win),
              (size, unit, info, comm, base, win), nullptr, base);
PENSTOCK_MAKE(Win_allocate_shared, Flavor::shared,
              (Aint size, int unit, Handle info, Handle comm, void* base, void* win),
              (size, unit, info, comm, base, win), nullptr, base);
PENSTOCK_MAKE(Win_allocate_shared_c, Flavor::shared,
              (Aint size, Aint unit, Handle info, Handle comm, void* base, void* win),
              (size, unit, info, comm, base, win), nullptr, base);
