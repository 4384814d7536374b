// Making a window in the pool, by all ranks of a communicator together.
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
  unified      ///< as MPI_WIN_UNIFIED says: it stays with the MPI
};
/// The memory model of a window that is made with `info`. Warns once about each unknown value.
Model model_wanted(Handle info);

struct Wanted {
  Flavor flavor;
  Aint size;
  Aint unit;   ///< of displacements
  void* base;  ///< Flavor::create: the caller's memory
  Handle info, comm;
  Model model;
};

/// Collective over the communicator. Returns the status of the intercepted call, and stores the
/// window's handle at `win` and the memory's address in `base`. nullopt: the MPI shall make the
/// window itself, on all ranks.
std::optional<int> make_window(const Wanted& wanted, void** base, void* win);
/// Collective. MPI_Win_free.
int free_window(PoolWindow& window, void* win);
/// Collective. Leaves the windows that the program has not freed when it finalizes MPI: others may
/// reach this rank's segment until they finalize too.
void leave_all_windows();

}  // namespace penstock::mpi
