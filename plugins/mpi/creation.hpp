// Makes and frees windows in the pool, collectively over a communicator.
#pragma once

#include <optional>

#include "windows.hpp"

namespace penstock::mpi {

enum class Flavor : std::uint8_t { create, allocate, shared };

/// The memory model of a window for loads and stores, where caches are not coherent
/// (PENSTOCK_WINDOW_MODEL).
enum class Model : std::uint8_t {
  separate,    ///< as MPI_WIN_SEPARATE says
  collective,  ///< collective calls synchronize it too
  unified      ///< as MPI_WIN_UNIFIED says: the MPI makes the window itself
};
/// The memory model that `info` and the environment ask for. Warns once about each unknown value.
Model model_wanted(Handle info);

struct Wanted {
  Flavor flavor;
  Aint size;
  Aint unit;   ///< displacement unit in bytes
  void* base;  ///< Flavor::create: the caller's memory
  Handle info, comm;
  Model model;
};

/// Makes a window. Collective over the communicator. Returns the status of the intercepted call,
/// and stores the window's handle at `win` and the memory's address in `base`. Returns nullopt, on
/// all ranks, if the MPI has to make the window itself.
std::optional<int> make_window(const Wanted& wanted, void** base, void* win);
/// MPI_Win_free. Collective over the window.
int free_window(PoolWindow& window, void* win);
/// Leaves the windows that the program has not freed when it finalizes MPI. Collective: peers may
/// access this rank's segment until they finalize too.
void leave_all_windows();

}  // namespace penstock::mpi
