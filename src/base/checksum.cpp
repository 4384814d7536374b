#include "base/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock::base {

std::uint64_t xxh64(const void* bytes, std::size_t count, std::uint64_t seed) {
  return XXH64(bytes, count, seed);
}

}  // namespace penstock::base
