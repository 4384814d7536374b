// Which collective calls go through the pool: PENSTOCK_COLL.
#pragma once

#include "collective_arguments.hpp"

namespace penstock::mpi {

enum class Form : std::uint8_t { blocking, nonblocking };  ///< persistent calls are nonblocking

/// The pool can do the call.
bool is_taken(CollectiveCall call);
/// The user wants it: the same on all ranks.
bool is_wanted(CollectiveCall call, Form form);
/// The user wants any.
bool any_is_wanted();

}  // namespace penstock::mpi
