#include "pool/sealed_line.hpp"

#include <xxhash.h>

#include <algorithm>

namespace penstock::pool {

std::uint64_t seal_of(const void* line, std::uint64_t place) {
  const auto* bytes = static_cast<const unsigned char*>(line);
  if (std::all_of(bytes, bytes + coherence::sealed_bytes, [](unsigned char b) { return b == 0; })) {
    return 0;
  }
  return XXH64(line, coherence::sealed_bytes, place);
}

}  // namespace penstock::pool
