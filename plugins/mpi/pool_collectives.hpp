// MPI's blocking collective calls through the pool.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "collective_words.hpp"

namespace penstock::mpi {

enum class CollectiveCall : std::uint8_t {
#define PENSTOCK_COLLECTIVE(name, lower, UPPER, n) lower,
#define PENSTOCK_COUNTED(name, lower, UPPER, n, ...) lower,
#include "collective_table.inc"
#undef PENSTOCK_COLLECTIVE
#undef PENSTOCK_COUNTED
};

/// Does the call if the pool serves it; nullopt: the MPI does, on all ranks of the communicator.
/// `words`: the arguments in C, as they came; `large`: the counts are MPI_Count. Which calls are
/// taken: PENSTOCK_COLL.
std::optional<int> collective_in_pool(CollectiveCall call, std::span<const Word> words, bool large);

}  // namespace penstock::mpi
