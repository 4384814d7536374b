// Scattered buffers seen as one sequence of bytes.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::transport {

inline std::uint64_t iov_bytes(const iovec* iov, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += iov[i].iov_len;
  return sum;
}

/// Calls visit(pointer, bytes, done) for the existing parts of [offset, offset + bytes).
template <class Visit>
void iov_visit(const iovec* iov, std::size_t count, std::uint64_t offset, std::uint64_t bytes,
               Visit&& visit) {
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < count && done < bytes; ++i) {
    if (offset >= iov[i].iov_len) {
      offset -= iov[i].iov_len;
      continue;
    }
    const std::uint64_t piece = std::min<std::uint64_t>(iov[i].iov_len - offset, bytes - done);
    visit(static_cast<std::byte*>(iov[i].iov_base) + offset, piece, done);
    done += piece;
    offset = 0;
  }
}

/// Copies the bytes [offset, offset + bytes) to `to`; skips bytes that do not exist.
inline void iov_gather(const iovec* iov, std::size_t count, std::uint64_t offset, std::byte* to,
                       std::uint64_t bytes) {
  iov_visit(iov, count, offset, bytes, [&](std::byte* at, std::uint64_t n, std::uint64_t done) {
    std::memcpy(to + done, at, n);
  });
}

/// The bytes [offset, offset + bytes), contiguous: in place, or gathered into `staging`.
inline const std::byte* iov_contiguous(const iovec* iov, std::size_t count, std::uint64_t offset,
                                       std::uint64_t bytes, std::byte* staging) {
  if (count == 1) return static_cast<const std::byte*>(iov[0].iov_base) + offset;
  iov_gather(iov, count, offset, staging, bytes);
  return staging;
}

/// Copies `from` to the bytes [offset, offset + bytes); drops bytes that have no room.
inline void iov_scatter(const iovec* iov, std::size_t count, std::uint64_t offset, const void* from,
                        std::uint64_t bytes) {
  const auto* source = static_cast<const std::byte*>(from);
  iov_visit(iov, count, offset, bytes, [&](std::byte* at, std::uint64_t n, std::uint64_t done) {
    std::memcpy(at, source + done, n);
  });
}

}  // namespace penstock::transport
