// The lines that the two sides of a litmus test share; docs/protocols/litmus.md draws them.
#pragma once

#include <string_view>

#include "coherence/coherence.hpp"
#include "litmus/verdict.hpp"

namespace penstock::litmus {

inline constexpr std::string_view object_name = "penstock.litmus";
inline constexpr std::uint64_t seat_magic = 0x31736d7469'6c7370;

/// The process on this side; one line for each side.
struct SeatLine {
  std::uint64_t token;
  std::uint64_t rounds;  ///< as this side was asked for; those of the first side count
  std::uint64_t unused[5];
  std::uint64_t magic;  ///< arrives last: all other words are there too
};
static_assert(sizeof(SeatLine) == coherence::line_bytes);

/// The counts of one side as reader.
struct CountsLines {
  Counts of_trial[trial_count];
  std::uint64_t unused[4];
};
static_assert(sizeof(CountsLines) % coherence::line_bytes == 0);

inline constexpr std::uint32_t sides = 2;
/// Lines of a payload. The one line of other trials has at least a pair of lines to itself, because
/// processors fetch pairs.
inline constexpr std::uint64_t tested_lines = 8;
inline constexpr std::uint64_t tested_stride = tested_lines * coherence::line_bytes;

inline constexpr std::uint64_t seats_at = 0;
inline constexpr std::uint64_t bells_at = seats_at + sides * sizeof(SeatLine);
inline constexpr std::uint64_t counts_at = bells_at + sides * coherence::line_bytes;
inline constexpr std::uint64_t tested_at = counts_at + sides * sizeof(CountsLines);
inline constexpr std::uint64_t object_bytes = tested_at + trial_count * sides * tested_stride;
static_assert(tested_at % (2 * coherence::line_bytes) == 0);

}  // namespace penstock::litmus
