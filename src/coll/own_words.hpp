// The words of a communicator that only this rank writes, and the values it published last. A
// waiting rank finds words that foreign stores have overwritten, and publishes them again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coherence/coherence.hpp"
#include "coll/layout.hpp"

namespace penstock::coll {

using coherence::Site;

class OwnWords {
 public:
  OwnWords(const coherence::Memory& memory, std::byte* area, const Layout& layout,
           std::uint32_t ranks, std::uint32_t self)
      : memory_(memory), area_(area), layout_(layout), self_(self), releases_(ranks) {}

  /// Names the word in which this rank has released a producer's chunks.
  struct Release {
    std::uint32_t producer;
  };

  /// Publishes the word at `offset`, in this rank's row of words. Not ordered.
  void publish_word(std::uint64_t offset, std::uint64_t word, Site site = Site::here()) {
    row_[(offset - layout_.row(self_)) / 8] = word;
    memory_.publish_word(area_ + offset, word, site);
  }
  /// Publishes a release. Not ordered.
  void publish_word(Release of, std::uint64_t word, Site site = Site::here()) {
    releases_[of.producer] = word;
    memory_.publish_word(area_ + layout_.release(of.producer, self_), word, site);
  }

  std::uint64_t released(std::uint32_t producer) const { return releases_[producer]; }

  /// Checks the row and some of the releases, in turn. Publishes again each word that differs from
  /// this rank's value. Returns true if there was one. Not ordered. A device access.
  bool restore();

 private:
  bool restore_word(std::uint64_t offset, std::uint64_t word);

  const coherence::Memory& memory_;
  std::byte* const area_;
  const Layout layout_;
  const std::uint32_t self_;
  std::array<std::uint64_t, row_words> row_{};
  std::vector<std::uint64_t> releases_;  ///< by producer
  std::uint32_t next_ = 0;               ///< the next producer to check
};

}  // namespace penstock::coll
