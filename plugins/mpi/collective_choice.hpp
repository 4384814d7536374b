// Which collective calls go through the pool: PENSTOCK_COLL.
#pragma once

#include <cstdint>
#include <string>

#include "collective_arguments.hpp"

namespace penstock::mpi {

enum class Form : std::uint8_t { blocking, nonblocking };  ///< persistent calls are nonblocking

/// The pool can do the call.
bool is_taken(CollectiveCall call);
/// The user wants it: the same on all ranks.
bool is_wanted(CollectiveCall call, Form form);
/// A bit for each call: those that the user wants in the pool, and all that there are.
std::uint64_t calls_in_pool();
std::uint64_t all_calls();
/// Such bits as text: "all", "none", "allreduce, bcast, ialltoall".
std::string calls_text(std::uint64_t calls);

}  // namespace penstock::mpi
