// MPI_Win_get_attr in Fortran. All other Fortran calls reach us through MPI_* or PMPI_* in C; this
// one calls neither. It first calls the MPI's own function. Behind each of our windows is a window
// of the MPI with the same attributes, so the MPI writes `flag` and `ierror` in the sizes that this
// Fortran uses. Then it replaces the value by ours, since flavor and memory model differ.
#include <atomic>

#include "export.hpp"

namespace {

using namespace penstock::mpi;

/// `ierror` is optional in mpi_f08.
using WinGetAttr = void(const int* win, const int* keyval, Aint* value, void* flag, void* ierror);

/// The C key of a predefined window attribute, or `absent`.
int key_in_c(int keyval) {
  const Constants& c = constants();
  for (const int known :
       {c.win_base, c.win_size, c.win_disp_unit, c.win_create_flavor, c.win_model}) {
    // MPICH's Fortran keys are its C keys with the last bit set.
    if (keyval == known || (abi() == Abi::mpich && keyval == known + 1)) return known;
  }
  return absent;
}

void correct(const PoolWindow& window, int key, Aint* value) {
  const Constants& c = constants();
  if (key == c.win_base) *value = reinterpret_cast<Aint>(window.base);
  if (key == c.win_size) *value = window.size;
  if (key == c.win_disp_unit) *value = window.unit;
  if (key == c.win_create_flavor) *value = window.flavor;
  if (key == c.win_model) *value = window.model;
}

class GetAttribute {
 public:
  explicit constexpr GetAttribute(const char* symbol) : symbol_(symbol) {}
  void operator()(const void* caller, const int* win, const int* keyval, Aint* value, void* flag,
                  void* ierror) {
    void* original = original_.load(std::memory_order_relaxed);
    if (original == nullptr) {
      original = next_symbol(symbol_, caller);
      original_.store(original, std::memory_order_relaxed);
    }
    if (original == nullptr) return;
    reinterpret_cast<WinGetAttr*>(original)(win, keyval, value, flag, ierror);
    if (pool_windows.load(std::memory_order_acquire) == 0) return;
    const PoolWindow* const window = pool_window(window_from_fortran(*win));
    const int key = key_in_c(*keyval);
    if (window != nullptr && key != absent) correct(*window, key, value);
  }

 private:
  const char* symbol_;
  std::atomic<void*> original_{nullptr};
};

}  // namespace

#define PENSTOCK_GET_ATTR(symbol)                                                         \
  PENSTOCK_EXPORT void symbol(const int* win, const int* keyval, Aint* value, void* flag, \
                              void* ierror) {                                             \
    static constinit GetAttribute call(#symbol);                                          \
    call(__builtin_return_address(0), win, keyval, value, flag, ierror);                  \
  }                                                                                       \
  static_assert(true)

PENSTOCK_GET_ATTR(mpi_win_get_attr_);
PENSTOCK_GET_ATTR(mpi_win_get_attr__);
PENSTOCK_GET_ATTR(MPI_WIN_GET_ATTR);
PENSTOCK_GET_ATTR(mpi_win_get_attr_f08_);
PENSTOCK_GET_ATTR(pmpi_win_get_attr_);
PENSTOCK_GET_ATTR(pmpi_win_get_attr__);
PENSTOCK_GET_ATTR(PMPI_WIN_GET_ATTR);
PENSTOCK_GET_ATTR(pmpi_win_get_attr_f08_);
PENSTOCK_GET_ATTR(ompi_win_get_attr_f);
