#include "fortran.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "fortran_requests.hpp"
#include "held_handles.hpp"
#include "windows.hpp"

namespace penstock::mpi::fortran {

namespace {

using Initialized = void(void* flag, void* ierror);

/// MPI_Initialized, which may be called at any time, of the interface that we serve: it shows what
/// the Fortran of this MPI looks like.
Initialized* initialized(const void* caller) {
  static std::atomic<Initialized*> found{nullptr};
  if (found.load(std::memory_order_relaxed) == nullptr) {
    const char* name = abi() == Abi::open_mpi ? "mpi_initialized_" : "mpi_initialized_f08_";
    found.store(reinterpret_cast<Initialized*>(next_symbol(name, caller)),
                std::memory_order_relaxed);
  }
  return found.load(std::memory_order_relaxed);
}

/// Returns false if INTEGERs have 8 bytes, which an MPI can be configured for.
bool integers_are_ints(const void* caller) {
  std::int64_t flag = -1, status = -1;
  if (Initialized* ask = initialized(caller)) ask(&flag, &status);
  return status != 0;  // its upper half was not written
}

/// Open MPI 6 has another mpi_f08, whose MPI_Put and MPI_Free_mem we would not see.
bool is_newer_open_mpi() {
  int major = 0;
  return std::sscanf(library().version.c_str(), "Open MPI v%d", &major) == 1 && major > 5;
}

/// Why the calls of this MPI's Fortran cannot be served; "" if they can.
std::string obstacle(const void* caller) {
  if (is_newer_open_mpi()) {
    return "of " + library().version +
           " the Fortran interfaces are not known: use Open MPI 4.1 or 5.0 for programs in Fortran";
  }
  if (!integers_are_ints(caller)) {
    return "an INTEGER of this MPI's Fortran has 8 bytes: use an MPI that was configured without "
           "-i8 "
           "or -fdefault-integer-8";
  }
  return "";
}

bool serves(const void* caller) {
  if (!usable(caller)) return false;
  static const std::string why = obstacle(caller);
  if (!why.empty()) refuse(why);
  return why.empty();
}

/// A constant of the MPI's Fortran whose address counts: where the variable of this name lies in
/// this process.
class Place {
 public:
  explicit constexpr Place(const char* name) : name_(name) {}
  void find(const void* caller) {
    if (at_.load(std::memory_order_relaxed) != nullptr) return;
    void* global = ::dlsym(RTLD_DEFAULT, name_);
    at_.store(global != nullptr ? global : next_symbol(name_, caller), std::memory_order_relaxed);
  }
  bool is(const void* at) const {
    return at != nullptr && at == at_.load(std::memory_order_relaxed);
  }

 private:
  const char* name_;
  std::atomic<const void*> at_{nullptr};
};
constinit Place bottom("mpi_fortran_bottom_"), in_place("mpi_fortran_in_place_");
constinit Place status_ignore("mpi_fortran_status_ignore_"),
    statuses_ignore("mpi_fortran_statuses_ignore_");
constinit Place f08_status_ignore("MPIR_F08_MPI_STATUS_IGNORE_OBJ"),
    f08_statuses_ignore("MPIR_F08_MPI_STATUSES_IGNORE_OBJ");

/// The attribute that Fortran asks for, as C's key; absent if it is none that windows are born
/// with.
int window_attribute(int keyval) {
  const Constants& c = constants();
  for (const int known :
       {c.win_base, c.win_size, c.win_disp_unit, c.win_create_flavor, c.win_model}) {
    // MPICH's keys say by their last bit that Fortran asks.
    if (keyval == known || (abi() == Abi::mpich && keyval == known + 1)) return known;
  }
  return absent;
}

}  // namespace

// In MPICH and Intel MPI mpi_put_ calls MPI_Put, which is ours. So the MPI's own Fortran gets the
// call unchanged, and converts its constants, truth values and, in Intel MPI's libmpi_ilp64,
// INTEGERs of 8 bytes.
bool serves_mpif_h(const void* caller) {
  if (!serves(caller) || abi() != Abi::open_mpi) return false;
  bottom.find(caller);
  in_place.find(caller);
  status_ignore.find(caller);
  statuses_ignore.find(caller);
  return true;
}

// In Open MPI mpi_win_fence_f08_ calls ompi_win_fence_f, which is ours.
bool serves_f08(const void* caller) {
  return serves(caller) && abi() != Abi::open_mpi;
}
bool waits_by_f08(const void* caller) {
  if (!have_pool_requests() || !serves_f08(caller)) return false;
  f08_status_ignore.find(caller);
  f08_statuses_ignore.find(caller);
  return true;
}

// But mpi_win_test_f08_ calls pmpi_win_test_, as do all functions that return a truth value.
bool serves_f08_logical(const void* caller) {
  return serves(caller);
}
bool waits_by_f08_logical(const void* caller) {
  if (!have_pool_requests()) return false;
  return abi() == Abi::open_mpi ? serves_mpif_h(caller) : waits_by_f08(caller);
}
bool waits_by_mpif_h(const void* caller) {
  return have_pool_requests() && serves_mpif_h(caller);
}
bool frees_by_mpif_h(const void* caller) {
  return held_handles().any() && serves_mpif_h(caller);
}
bool frees_by_f08(const void* caller) {
  return held_handles().any() && serves_f08(caller);
}

void* buffer(void* at) {
  if (bottom.is(at)) return constants().bottom;
  return in_place.is(at) ? constants().in_place : at;
}

void* status(void* at) {
  return status_ignore.is(at) || f08_status_ignore.is(at) ? constants().status_ignore : at;
}

void* statuses(void* at) {
  return statuses_ignore.is(at) || f08_statuses_ignore.is(at) ? constants().statuses_ignore : at;
}

int true_value() {
  int flag = 1, status = 0;  // MPI is initialized: there is a window
  if (Initialized* ask = initialized(nullptr)) ask(&flag, &status);
  return flag;
}

// In Fortran these attributes are numbers, in C pointers. The MPI's own function is asked first:
// behind each of our windows there is one of the MPI, which has them too, so that it writes `flag`
// and `ierror` as its Fortran wants them.
void win_get_attr(WinGetAttr* original, const void* caller, Win win, Int keyval, Aint* value,
                  Logical flag, int* ierror) {
  if (original == nullptr) return report(ierror, no_function);
  original(win, keyval, value, flag, ierror);
  if (!usable(caller)) return;
  const Handle window = win;
  const int attribute = window_attribute(keyval);
  if (attribute == absent || !is_pool_window(window)) return;
  void* place = nullptr;
  int found = 0;
  if (MPI_Win_get_attr(window, attribute, &place, &found) != constants().success || found == 0)
    return;
  if (attribute == constants().win_base) {
    *value = reinterpret_cast<Aint>(place);
  } else if (attribute == constants().win_size) {
    *value = *static_cast<const Aint*>(place);
  } else {
    *value = *static_cast<const int*>(place);
  }
}

}  // namespace penstock::mpi::fortran
