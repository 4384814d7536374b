// Ranks that a call waits for, as its messages name them.
#pragma once

#include <algorithm>

#include "group/group.hpp"

namespace penstock::coll {

/// Leaves each rank once, in ascending order: both lanes of a call may wait for one rank.
inline void drop_repeated(group::Missing& missing) {
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
}

}  // namespace penstock::coll
