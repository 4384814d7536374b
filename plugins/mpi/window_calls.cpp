// The calls that make, query and free windows.
#include "creation.hpp"
#include "export.hpp"

namespace {

using namespace penstock::mpi;

/// Reads an attribute whose value differs from that of the MPI's window behind ours. False for
/// other attributes.
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
    return pmpi().Win_get_attr(window.handle, keyval, value, flag);
  *flag = 1;
  return constants().success;
}

template <class Unit>
int query(PoolWindow& window, int rank, Aint* size, Unit* unit, void* base) {
  const Constants& mpi = constants();
  const auto ranks = static_cast<int>(window.core->ranks());
  // In other windows, peers' memory cannot be accessed by loads and stores: its size is zero (MPI
  // 4.1).
  const bool shared = window.flavor == mpi.win_flavor_shared || window.model == mpi.win_unified;
  const auto bytes_of = [&](int of) -> std::uint64_t {
    const auto member = static_cast<std::uint32_t>(of);
    const bool own = rank == of && member == window.core->self();
    return shared || own ? window.core->member(member).bytes : 0;
  };
  int asked = rank;
  if (rank == mpi.proc_null) {  // means the first rank that has memory
    asked = 0;
    while (asked + 1 < ranks && bytes_of(asked) == 0) ++asked;
  }
  if (asked < 0 || asked >= ranks) {
    pmpi().Win_call_errhandler(window.handle, mpi.err_rank);
    return mpi.err_rank;
  }
  *size = static_cast<Aint>(bytes_of(asked));
  *unit = static_cast<Unit>(window.units[static_cast<std::size_t>(asked)]);
  *static_cast<void**>(base) =
      *size != 0 ? window.core->segment(static_cast<std::uint32_t>(asked)) : nullptr;
  return mpi.success;
}

int query_large(const void* caller, Handle win, int rank, Aint* size, Aint* unit, void* base) {
  if (pmpi().Win_shared_query_c != nullptr)
    return pmpi().Win_shared_query_c(win, rank, size, unit, base);
  int small = 0;
  const int status = PENSTOCK_PASS(Win_shared_query, (win, rank, size, &small, base));
  *unit = small;
  return status;
}

/// Makes a window in the pool; nullopt if the MPI has to make it.
std::optional<int> make(Flavor flavor, Aint size, Aint unit, void* given, Handle info, Handle comm,
                        void* base, void* win) {
  if (!pool_is_named()) return std::nullopt;
  const Wanted wanted{
      flavor, size, unit, given, incoming(info), incoming(comm), model_wanted(incoming(info))};
  return make_window(wanted, static_cast<void**>(base), win);
}

}  // namespace

PENSTOCK_WINDOW_QUESTION_OR(Win_get_attr, (Handle win, int keyval, void* value, int* flag),
                            (win, keyval, value, flag),
                            PENSTOCK_PASS(Win_get_attr, (win, keyval, value, flag)),
                            get_attribute(*window, keyval, value, flag));
PENSTOCK_WINDOW_QUESTION_OR(Win_shared_query,
                            (Handle win, int rank, Aint* size, int* unit, void* base),
                            (win, rank, size, unit, base),
                            PENSTOCK_PASS(Win_shared_query, (win, rank, size, unit, base)),
                            query(*window, rank, size, unit, base));
PENSTOCK_WINDOW_QUESTION_OR(Win_shared_query_c,
                            (Handle win, int rank, Aint* size, Aint* unit, void* base),
                            (win, rank, size, unit, base),
                            query_large(caller, win, rank, size, unit, base),
                            query(*window, rank, size, unit, base));

PENSTOCK_MPI(Win_free, (void* win), (win)) {
  if (usable(caller)) {
    if (PoolWindow* const window = pool_window(load(win))) return free_window(*window, win);
  }
  return PENSTOCK_PASS(Win_free, (win));
}

/// Defines one of the three calls that make windows, or its form with large counts.
#define PENSTOCK_MAKE(name, flavor, parameters, arguments, given, base, pass)                     \
  PENSTOCK_MPI(name, parameters, arguments) {                                                     \
    if (usable(caller)) {                                                                         \
      if (const auto made = make(flavor, size, unit, given, info, comm, base, win)) return *made; \
    }                                                                                             \
    return pass;                                                                                  \
  }                                                                                               \
  static_assert(true)

// Argument lists of these calls; U, the type of the displacement unit, is int or Aint.
#define CREATE(U) (void* base, Aint size, U unit, Handle info, Handle comm, void* win)
#define CREATED (base, size, unit, info, comm, win)
#define ALLOCATE(U) (Aint size, U unit, Handle info, Handle comm, void* base, void* win)
#define ALLOCATED (size, unit, info, comm, base, win)

PENSTOCK_MAKE(Win_create, Flavor::create, CREATE(int), CREATED, base, nullptr,
              PENSTOCK_PASS(Win_create, CREATED));
PENSTOCK_MAKE(Win_create_c, Flavor::create, CREATE(Aint), CREATED, base, nullptr,
              PENSTOCK_PASS_LARGE(Win_create_c, Win_create, CREATED, unit));
PENSTOCK_MAKE(Win_allocate, Flavor::allocate, ALLOCATE(int), ALLOCATED, nullptr, base,
              PENSTOCK_PASS(Win_allocate, ALLOCATED));
PENSTOCK_MAKE(Win_allocate_c, Flavor::allocate, ALLOCATE(Aint), ALLOCATED, nullptr, base,
              PENSTOCK_PASS_LARGE(Win_allocate_c, Win_allocate, ALLOCATED, unit));
PENSTOCK_MAKE(Win_allocate_shared, Flavor::shared, ALLOCATE(int), ALLOCATED, nullptr, base,
              PENSTOCK_PASS(Win_allocate_shared, ALLOCATED));
PENSTOCK_MAKE(Win_allocate_shared_c, Flavor::shared, ALLOCATE(Aint), ALLOCATED, nullptr, base,
              PENSTOCK_PASS_LARGE(Win_allocate_shared_c, Win_allocate_shared, ALLOCATED, unit));
