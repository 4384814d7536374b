// MPI's collective calls through the pool: blocking, nonblocking and persistent ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "collective_arguments.hpp"

namespace penstock::mpi {

/// A collective call as it came.
struct Asked {
  CollectiveCall call;
  std::span<const Word> words;  ///< the arguments of the blocking form in C
  bool large;                   ///< the counts are MPI_Count
  const char* name;             ///< "MPI_Iallreduce"; a literal
};

/// Each does the call if the pool serves it; nullopt: the MPI does, on all ranks of the
/// communicator. Which calls are taken: PENSTOCK_COLL.
std::optional<int> collective_in_pool(const Asked& asked);
/// `request`: where its handle goes.
std::optional<int> nonblocking_in_pool(const Asked& asked, void* request);
/// MPI_Allreduce_init and its like. May wait for the other ranks.
std::optional<int> persistent_in_pool(const Asked& asked, void* request);

}  // namespace penstock::mpi
