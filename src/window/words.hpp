// A rank's row of words that others write, one each, and its own words in the rows of others.
#pragma once

#include <span>

#include "window/context.hpp"

namespace penstock::window {

class Words {
 public:
  /// `rows`: offset of the first row in the window's area.
  Words(const Context& context, std::uint64_t rows)
      : context_(context), rows_(rows), told_(context.ranks()), awaited_(context.ranks()) {}

  /// One more to each of `readers`. What was published before is there before it.
  void tell(std::span<const std::uint32_t> readers);
  void tell(std::uint32_t reader, std::uint64_t value);
  /// One more is awaited from each of `writers`.
  void await(std::span<const std::uint32_t> writers);
  void await(std::uint32_t writer, std::uint64_t value) { awaited_[writer] = value; }
  /// Takes from `missing` who has told what is awaited. One device access.
  void drop_those_who_told(Missing& missing) const;
  /// The words of all ranks, into `words`. One device access.
  void observe_row(std::vector<std::uint64_t>& words) const;

 private:
  std::byte* word(std::uint32_t reader, std::uint32_t writer) const {
    return context_.area(rows_ + reader * context_.layout.row_bytes() + 8ull * writer);
  }

  const Context& context_;
  std::uint64_t rows_;
  std::vector<std::uint64_t> told_, awaited_;  ///< by rank
};

}  // namespace penstock::window
