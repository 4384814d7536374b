// Making a window in the pool, by all ranks of a communicator together.
#pragma once

#include <optional>

#include "windows.hpp"

namespace penstock::mpi {

enum class Flavor : std::uint8_t { create, allocate, shared };

struct Wanted {
  Flavor flavor;
  Aint size;
  Aint unit;   ///< of displacements
  void* base;  ///< Flavor::create: the caller's memory
  Handle info, comm;
};

/// Collective over the communicator. The status of the call that asks for the window: its handle
/// stands at `win` then, and the memory's address in `base`. nullopt: the MPI shall make the window
/// itself, on all ranks.
std::optional<int> make_window(const Wanted& wanted, void** base, void* win);
/// Collective. MPI_Win_free.
int free_window(PoolWindow& window, void* win);

}  // namespace penstock::mpi
