#include "pool/checksummed_line.hpp"

#include <algorithm>

#include "base/checksum.hpp"

namespace penstock::pool {

std::uint64_t line_checksum(const void* line, std::uint64_t place) {
  const auto* bytes = static_cast<const unsigned char*>(line);
  if (std::all_of(bytes, bytes + coherence::tagged_bytes, [](unsigned char b) { return b == 0; })) {
    return 0;
  }
  return base::xxh64(line, coherence::tagged_bytes, place);
}

}  // namespace penstock::pool
