// State shared by the two sides of a measurement: ordinary coherent memory outside any pool.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace penstock::bench {

inline constexpr std::size_t letter_bytes = 512;

struct alignas(64) SharedWord {
  std::atomic<std::uint64_t> value{0};
};

struct SharedState {
  SharedWord arrived[2];  ///< barriers reached; side i writes word i
  SharedWord ball[2];     ///< placement probe
  SharedWord signal[2];   ///< one-way signals
  SharedWord note[2];     ///< a number for the other side
  char letter[2][letter_bytes];
};

}  // namespace penstock::bench
