// Is a pool in use? Asked before it is removed or replaced.
#pragma once

#include <optional>
#include <string>

#include "base/status.hpp"

namespace penstock::pool {

/// Names a living attached process of the pool at `spec`, if there is one. Processes of other hosts
/// are watched until they are certain: a lease at most.
Result<std::optional<std::string>> living_occupant(const std::string& spec);

}  // namespace penstock::pool
