// Where the words of pairs lie. Each rank has a directory, which it alone writes: for each rank
// that it has to do with, the place of its words towards it. It is a tree of lines with eight
// places each, indexed by the digits of the other's rank to the base eight; the root lies in the
// rank's own words. What is not used is not there. An entry appears whole, after what it leads to.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "window/context.hpp"

namespace penstock::window {

class Directory {
 public:
  explicit Directory(const Context& context);

  /// Makes this rank's words towards `reader`, if they are not there yet. Errors: no_space.
  Result<void> prepare(std::uint32_t reader);
  Result<void> prepare(std::span<const std::uint32_t> readers) {
    for (const std::uint32_t reader : readers) PENSTOCK_TRY(prepare(reader));
    return {};
  }
  /// This rank's words towards `reader`: their offset in the pool, 0: not prepared.
  std::uint64_t to(std::uint32_t reader) const { return to_.empty() ? 0 : to_[reader]; }
  /// Words of `writer` towards this rank, as find() has seen it; 0: not there yet.
  std::uint64_t from(std::uint32_t writer) const { return from_.empty() ? 0 : from_[writer]; }
  /// Looks for the words of those that from() knows none of. A device access for each level, for
  /// all of them together; none where all are known.
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
