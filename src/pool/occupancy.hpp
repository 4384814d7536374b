// Whether a pool is in use; checked before it is removed or replaced.
#pragma once

#include <optional>
#include <string>

#include "base/status.hpp"

namespace penstock::pool {

/// Describes a living attached process of the pool at `spec`, if there is one. Watches processes of
/// other hosts until their state is certain: a lease at most.
Result<std::optional<std::string>> living_occupant(const std::string& spec);

}  // namespace penstock::pool
