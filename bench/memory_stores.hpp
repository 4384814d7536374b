// Stores of a named width. What a library's memset does is its own choice: glibc's takes string
// stores above 2 KiB, which go byte by byte where memory is uncached, so that a figure of it says
// little of the memory (cMPI, figure 11).
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

/// All that this CPU can do: of 1, 8, 16, 32 and 64 bytes, and libc's memset.
const std::vector<Store>& stores();

/// Reads all words of it.
std::uint64_t sum_of(const std::byte* from, std::size_t bytes);

}  // namespace penstock::bench
