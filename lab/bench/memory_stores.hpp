// Stores of a given width. A library's memset chooses its own: glibc's takes string stores above 2
// KiB, which go byte by byte if memory is uncached, so that its figure says little about the memory
// (cMPI, figure 11).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::bench {

struct Store {
  std::string name;
  /// Sets `bytes`, a multiple of 64, to the byte `value`, with stores of this width and no others.
  void (*fill)(std::byte* to, std::size_t bytes, int value);
};

/// All widths that this CPU has: 1, 8, 16, 32 and 64 bytes, and libc's memset.
const std::vector<Store>& stores();

/// Sums up all words, so that each is read.
std::uint64_t sum_of(const std::byte* from, std::size_t bytes);

}  // namespace penstock::bench
