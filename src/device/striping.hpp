// On which part (device) of a pool a byte lies. Stripes of the parts alternate; those of the last
// row may be shorter (mapping.cpp).
#pragma once

#include <cstdint>

namespace penstock::device {

/// Bytes [begin, end) of the pool, all on one part.
struct Stripe {
  std::uint32_t part = 0;
  std::uint64_t begin = 0, end = 0;
};

struct Striping {
  std::uint64_t bytes = 0;  ///< of the pool
  std::uint64_t stripe_bytes = 0;
  std::uint32_t parts = 1;

  /// `offset` must lie in the pool.
  Stripe stripe_of(std::uint64_t offset) const {
    if (parts < 2) return {0, 0, bytes};
    const std::uint64_t of_part = bytes / parts;
    const std::uint64_t whole_rows_end = of_part / stripe_bytes * stripe_bytes * parts;
    const bool last_row = offset >= whole_rows_end;
    const std::uint64_t start = last_row ? whole_rows_end : 0;
    const std::uint64_t length = last_row ? of_part % stripe_bytes : stripe_bytes;
    const std::uint64_t number = (offset - start) / length;
    const std::uint64_t begin = start + number * length;
    return {static_cast<std::uint32_t>(number % parts), begin, begin + length};
  }
};

}  // namespace penstock::device
