// Chooses the collective calls that go through the pool, by PENSTOCK_COLL.
#pragma once

#include <cstdint>
#include <string>

#include "collective_arguments.hpp"

namespace penstock::mpi {

enum class Form : std::uint8_t { blocking, nonblocking };  ///< persistent calls are nonblocking

/// True if the pool can do the call.
bool is_taken(CollectiveCall call);
/// True if the user wants the call in the pool. The same on all ranks.
bool is_wanted(CollectiveCall call, Form form);
/// Bit masks of calls: those that the user wants in the pool, and all that the pool can do.
std::uint64_t calls_in_pool();
std::uint64_t all_calls();
/// Such a mask as text: "all", "none", "allreduce, bcast, ialltoall".
std::string calls_text(std::uint64_t calls);

}  // namespace penstock::mpi
