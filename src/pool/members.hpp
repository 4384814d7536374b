// Who has died, and who has only left.
#pragma once

#include <cstdint>

namespace penstock::pool {

class Pool;

/// Its slot says that it is attached, and it is not alive. Reads a few lines, as Pool::alive().
bool died(const Pool& pool, std::uint64_t token);

}  // namespace penstock::pool
