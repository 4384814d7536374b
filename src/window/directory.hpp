// Locations of the words of pairs. Each rank has a directory that only it writes, with the location
// of its words towards each rank that it communicates with. The directory is a tree of lines with
// eight words each, indexed by the octal digits of the other's rank; the root lies in the rank's
// own words. Unused parts do not exist. An entry is published whole, after the memory that it
// names.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "window/context.hpp"

namespace penstock::window {

class Directory {
 public:
  explicit Directory(const Context& context);

  /// Makes this rank's words towards `reader`, if they do not exist yet. Errors: no_space.
  Result<void> prepare(std::uint32_t reader);
  Result<void> prepare(std::span<const std::uint32_t> readers) {
    for (const std::uint32_t reader : readers) PENSTOCK_TRY(prepare(reader));
    return {};
  }
  /// Pool offset of this rank's words towards `reader`; 0: not prepared.
  std::uint64_t to(std::uint32_t reader) const { return to_.empty() ? 0 : to_[reader]; }
  /// Words of `writer` towards this rank, as last found; 0: not there yet.
  std::uint64_t from(std::uint32_t writer) const { return from_.empty() ? 0 : from_[writer]; }
  /// Looks for the words of writers for which from() is 0. One device access per level, for all of
  /// them together; none if all are known.
  void find(std::span<const std::uint32_t> writers);

 private:
  struct Line {
    std::uint64_t place = 0;
    std::unique_ptr<Line> next[words_of_line];
  };
  Result<std::uint64_t> enter(Line& line, std::uint32_t level, std::uint32_t reader);
  std::uint64_t word_at(std::uint64_t place, std::uint32_t level, std::uint32_t other) const;

  const Context& context_;
  std::uint32_t levels_ = 1;
  Line root_;
  std::vector<std::uint64_t> to_, from_;  ///< by rank; empty until needed
};

}  // namespace penstock::window
