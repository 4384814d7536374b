#include "bench/buffer.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace penstock::bench {
namespace {

constexpr std::size_t huge_page = 2 << 20;

}  // namespace

void Buffer::Free::operator()(std::byte* data) const {
  std::free(data);
}

Buffer::Buffer(std::size_t bytes, std::uint64_t seed) {
  const std::size_t whole = (bytes + huge_page - 1) / huge_page * huge_page;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(huge_page, whole)));
  if (!data_) throw std::bad_alloc();
  madvise(data_.get(), whole, MADV_HUGEPAGE);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (std::size_t at = 0; at < whole; at += sizeof state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(data_.get() + at, &state, sizeof state);
  }
}

}  // namespace penstock::bench
