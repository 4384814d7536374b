// A line whose last word is a checksum of the other words and of the line's offset. A publish may
// arrive in part (CPUs without 64-byte stores), and a writer may be killed within one; a reader
// then sees a wrong checksum, never a mixture of two lines.
#pragma once

#include <optional>
#include <type_traits>

#include "coherence/coherence.hpp"

namespace penstock::pool {

/// The checksum of the first 56 bytes of a line; 0 for a line of zeros.
std::uint64_t line_checksum(const void* line, std::uint64_t place);

/// `place`: the line's offset in the pool; distinguishes lines with equal contents.
template <class Line>
void publish_checksummed_line(const coherence::Memory& memory, std::byte* base, std::uint64_t place,
                              const Line& contents,
                              coherence::Site site = coherence::Site::here()) {
  static_assert(sizeof(Line) == coherence::line_bytes && std::is_trivially_copyable_v<Line>);
  Line line = contents;
  line.checksum = line_checksum(&line, place);
  memory.publish_line(base + place, &line, site);
}

/// Loads a line that the caller has invalidated. If the checksum is wrong, observes the line a few
/// more times; nullopt if it stays wrong. `raw`: receives the words as last read; single words are
/// never torn.
template <class Line>
std::optional<Line> load_checksummed_line(const coherence::Memory& memory, const std::byte* base,
                                          std::uint64_t place, Line* raw = nullptr,
                                          coherence::Site site = coherence::Site::here()) {
  static_assert(sizeof(Line) == coherence::line_bytes && std::is_trivially_copyable_v<Line>);
  constexpr int attempts = 64;
  Line line;
  memory.load_line(&line, base + place);
  for (int i = 0; line.checksum != line_checksum(&line, place); ++i) {
    if (i == attempts) {
      if (raw != nullptr) *raw = line;
      return std::nullopt;
    }
    memory.observe_line(&line, base + place, site);
  }
  if (raw != nullptr) *raw = line;
  return line;
}

template <class Line>
std::optional<Line> observe_checksummed_line(const coherence::Memory& memory, const std::byte* base,
                                             std::uint64_t place, Line* raw = nullptr,
                                             coherence::Site site = coherence::Site::here()) {
  memory.invalidate(base + place, coherence::line_bytes, site);
  memory.load_fence(site);
  return load_checksummed_line(memory, base, place, raw, site);
}

}  // namespace penstock::pool
