// STREAM's four kernels over double arrays, as published: STREAM 5.10 (McCalpin); papers/3, section
// 3.2. Initial values, scalar and counted bytes are STREAM's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace penstock::bench::stream {

enum class Kernel : std::uint8_t { copy, scale, add, triad };

inline constexpr std::array<Kernel, 4> all_kernels = {Kernel::copy, Kernel::scale, Kernel::add,
                                                      Kernel::triad};
inline constexpr double published_scalar = 3.0;
/// Elements in a cache line: no line is written by two threads.
inline constexpr std::uint64_t line_elements = 8;

/// "Copy", "Scale", "Add", "Triad".
const char* kernel_name(Kernel kernel);
/// In upper or lower case. Errors: invalid_argument, which names the four.
Result<Kernel> parse_kernel(std::string_view text);
/// Number of arrays that it reads and writes: 2 for Copy and Scale, 3 for Add and Triad.
constexpr std::uint64_t arrays_of(Kernel kernel) {
  return kernel == Kernel::copy || kernel == Kernel::scale ? 2 : 3;
}
/// Bytes that STREAM counts for one run over arrays of `elements` elements; without the lines that
/// a write fetches first.
constexpr std::uint64_t counted_bytes(Kernel kernel, std::uint64_t elements) {
  return arrays_of(kernel) * sizeof(double) * elements;
}

/// Three arrays of `elements` each, aligned to a cache line.
struct Arrays {
  double* a = nullptr;
  double* b = nullptr;
  double* c = nullptr;
  std::uint64_t elements = 0;
};

/// One thread's part of one kernel: elements [first, first + count).
struct Share {
  Kernel kernel = Kernel::copy;
  double* to = nullptr;          ///< the whole arrays, not the share's beginning
  const double* from = nullptr;  ///< its first operand
  const double* also = nullptr;  ///< its second operand; null for Copy and Scale
  std::uint64_t first = 0, count = 0;
  double scalar = published_scalar;

  double* written() const { return to + first; }
  std::size_t bytes() const { return count * sizeof(double); }
};

/// Elements of thread `index` of `threads`, in equal parts of whole lines, as in OpenMP's static
/// schedule. Parts of the last threads may be empty.
struct Part {
  std::uint64_t first = 0, count = 0;
};
Part part_of(std::uint64_t elements, unsigned index, unsigned threads);
Share share_of(Kernel kernel, const Arrays& arrays, unsigned index, unsigned threads);

/// The kernel itself, element by element: assigns `to(j)`, reads `from(j)` and `also(j)`.
template <class To, class From, class Also>
inline void run_kernel(const Share& share, const To& to, const From& from, const Also& also) {
  const std::uint64_t end = share.first + share.count;
  const double scalar = share.scalar;
  switch (share.kernel) {
    case Kernel::copy:
      for (std::uint64_t j = share.first; j < end; ++j) to(j) = from(j);
      break;
    case Kernel::scale:
      for (std::uint64_t j = share.first; j < end; ++j) to(j) = scalar * from(j);
      break;
    case Kernel::add:
      for (std::uint64_t j = share.first; j < end; ++j) to(j) = from(j) + also(j);
      break;
    case Kernel::triad:
      for (std::uint64_t j = share.first; j < end; ++j) to(j) = from(j) + scalar * also(j);
      break;
  }
}

/// With plain stores.
void run_plain(const Share& share);

/// Long enough that hardware mode's publish_bulk goes past the caches (decision 0026).
inline constexpr std::uint64_t block_elements = 2048;

/// Makes blocks of results in a buffer that stays in the first-level cache, and stores them by
/// `send(to, from, bytes)`: whole lines of a part.
template <class Send>
void run_in_blocks(const Share& share, const Send& send) {
  alignas(64) double block[block_elements];
  for (std::uint64_t done = 0; done < share.count; done += block_elements) {
    const std::uint64_t first = share.first + done;
    const std::uint64_t count =
        share.count - done < block_elements ? share.count - done : block_elements;
    if (share.kernel == Kernel::copy) {
      send(share.to + first, share.from + first, count * sizeof(double));
      continue;
    }
    Share part = share;
    part.to = block;
    part.from += first;
    part.also = share.also == nullptr ? nullptr : share.also + first;
    part.first = 0;
    part.count = count;
    run_plain(part);
    send(share.to + first, block, count * sizeof(double));
  }
}

}  // namespace penstock::bench::stream
