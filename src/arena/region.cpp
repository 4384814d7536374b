#include "arena/region.hpp"

#include <algorithm>

namespace penstock::arena {

namespace {

constexpr std::uint64_t zero_chunk_bytes = 64 << 10;
alignas(64) const std::byte zero_chunk[zero_chunk_bytes]{};

}  // namespace

std::function<void()>& after_publish_hook() {
  static std::function<void()> hook;
  return hook;
}

void Region::publish_zeros(std::uint64_t offset, std::uint64_t bytes) const {
  while (bytes != 0) {
    const std::uint64_t part = std::min(bytes, zero_chunk_bytes);
    confirm();
    memory_.publish_bulk(at(offset), zero_chunk, part);
    offset += part;
    bytes -= part;
  }
  published();
}

}  // namespace penstock::arena
