// Which algorithm, form and chunk a problem gets.
#pragma once

#include "coll/communicator.hpp"

namespace penstock::coll {

/// The same on all ranks that know the same of the problem: without Problem::max_block_bytes its
/// sizes do not count.
Plan default_plan(const Problem& problem, const Shape& shape);

}  // namespace penstock::coll
