// Per-thread memory that is reused between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::mpi {

/// Returns at least `bytes` bytes in `memory`, which grows if it is smaller.
inline std::byte* room(std::vector<std::byte>& memory, std::uint64_t bytes) {
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

}  // namespace penstock::mpi
