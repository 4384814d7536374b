// Memory of a thread that its calls use again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::mpi {

/// Returns at least `bytes` bytes of `memory`, which grows where it is smaller.
inline std::byte* room(std::vector<std::byte>& memory, std::uint64_t bytes) {
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

}  // namespace penstock::mpi
