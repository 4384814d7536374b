// The mapping itself is uncacheable: stores go out by themselves, loads always ask the device.
// A mapping that combines writes (PAT WC) holds stores back until a fence, and its loads may run
// ahead; so `store_fence` and `load_fence` are fences all the same. Beside an uncached access they
// cost little.
#include "coherence/plain_ops.hpp"

namespace penstock::coherence {

constexpr Ops uncached_ops = plain_ops();

}  // namespace penstock::coherence
