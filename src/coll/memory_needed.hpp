// The memory that a communicator needs: words and eager blocks in one area, slots behind them or in
// areas of their own.
#pragma once

#include "coll/communicator.hpp"

namespace penstock::coll {

/// Checks the shape, and that the areas which `options` names are those that it needs and lie in a
/// pool of `pool_bytes`. Errors: invalid_argument.
Result<void> check_memory(const Options& options, std::uint64_t pool_bytes);

}  // namespace penstock::coll
