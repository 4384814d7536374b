// MPI's blocking, nonblocking and persistent collective calls through the pool.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "collective_arguments.hpp"

namespace penstock::mpi {

/// An intercepted collective call.
struct Asked {
  CollectiveCall call;
  std::span<const Word> words;  ///< the arguments of the blocking form in C
  bool large;                   ///< the counts are MPI_Count
  const char* name;             ///< "MPI_Iallreduce"; a literal
};

/// Each of these makes the call through the pool. Returns nullopt, on all ranks of the
/// communicator, if the MPI has to make it. PENSTOCK_COLL selects the calls.
std::optional<int> collective_in_pool(const Asked& asked);
/// Stores the request's handle at `request`.
std::optional<int> nonblocking_in_pool(const Asked& asked, void* request);
/// MPI_Allreduce_init and the like. May wait for the other ranks.
std::optional<int> persistent_in_pool(const Asked& asked, void* request);

}  // namespace penstock::mpi
