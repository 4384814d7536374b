// Whether the parts of a pool keep their data when hosts are switched off, by the kind of file.
#pragma once

#include <vector>

#include "pool/part.hpp"

namespace penstock::pool {

/// The least durability of all parts.
Durability durability_of(const std::vector<OpenPart>& parts, coherence::Mode mode);

}  // namespace penstock::pool
